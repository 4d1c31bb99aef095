package fairlock

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

const claim = lua.Claim

// The answer that the waiter goes by: sent at local time t0, given at server time s0. All times of the tests are
// relative to these.
const s0 lua.Micros = 1_700_000_000_000_000

func TestAGrantIsBelievedUntilNoLaterThanItsClaimLastsAtTheServer(t *testing.T) {
	t0 := time.Now()
	after := func(d time.Duration) lua.Micros { return s0 + lua.Micros(d.Microseconds()) }
	for _, c := range []struct {
		promise   string
		last      sighting
		written   lua.Micros
		received  time.Duration // after t0
		session   uint64
		believed  bool
		trustedTo time.Duration // after t0
	}{
		{"counts from when the answer's request was sent", sighting{t0, s0, 1}, after(2 * time.Second), 2010 * time.Millisecond, 1, true, 2*time.Second + claim},
		{"is not believed longer for having come slowly", sighting{t0, s0, 1}, after(time.Second), 3 * time.Second, 1, true, time.Second + claim},
		{"before any answer counts from the first request", sighting{}, after(time.Second), 2 * time.Second, 0, true, claim},
		{"of the same microsecond is later if its token is", sighting{t0, s0, 1}, s0, time.Millisecond, 1, true, claim},
		{"older than the answer asks", sighting{t0, s0, 1}, s0 - 1, time.Second, 1, false, 0},
		{"further ahead than time has passed asks: the server's clock stepped", sighting{t0, s0, 1}, after(5 * time.Second), 4 * time.Second, 1, false, 0},
		{"after a re-made subscription asks: another server may speak", sighting{t0, s0, 1}, after(time.Second), 2 * time.Second, 2, false, 0},
	} {
		a := &attempt{began: t0, last: c.last}
		expires, ok := a.believe(lua.Message{At: c.written, Claim: claim}, t0.Add(c.received), c.session)
		if ok != c.believed || ok && expires.Sub(t0) != c.trustedTo {
			t.Errorf("a grant %s: believed %v until %v, want %v until %v", c.promise, ok, expires.Sub(t0), c.believed, c.trustedTo)
		}
	}
}

func TestATicketWhoseClaimRanOutTwiceGoesToTheEnd(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	l.core.Settings.Lease = 30 * time.Second
	a := &attempt{
		began: time.Now().Add(-time.Minute), place: 7, settled: make(chan struct{}), ticket: lua.Ticket{Client: l.core.ID, Counter: 1, Lease: 30 * time.Second},
		last: sighting{sent: time.Now().Add(-time.Minute), at: s0},
	}
	a.keys, _ = lua.NewKeys("fairlock", "x")
	l.attempts[1] = a
	late := lua.Message{Ticket: a.ticket, Token: 5, At: s0 + 1000, Claim: claim}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grantedByMessage(a, late, time.Now())
	if a.state != waiting || a.place != 7 {
		t.Fatalf("after the first: state %d, place %d", a.state, a.place)
	}
	late.Token++
	l.grantedByMessage(a, late, time.Now())
	if a.state != waiting || a.place != 0 {
		t.Fatalf("after the second: state %d, place %d", a.state, a.place)
	}
	l.settle(a, nil, ErrClosed)
	l.forget(a)
}
