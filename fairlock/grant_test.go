package fairlock

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
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
		{"counts from when the answer's request was sent, by clocks that run a tenth apart", sighting{t0, s0, 1}, after(2 * time.Second), 2010 * time.Millisecond, 1, true, 1800*time.Millisecond + claim},
		{"is not believed longer for having come slowly", sighting{t0, s0, 1}, after(time.Second), 3 * time.Second, 1, true, 900*time.Millisecond + claim},
		{"before any answer counts from the first request", sighting{}, after(time.Second), 2 * time.Second, 0, true, claim},
		{"of the same microsecond is later if its token is", sighting{t0, s0, 1}, s0, time.Millisecond, 1, true, claim},
		{"older than the answer asks", sighting{t0, s0, 1}, s0 - 1, time.Second, 1, false, 0},
		{"further ahead than time has passed asks: the server's clock stepped", sighting{t0, s0, 1}, after(5 * time.Second), 4 * time.Second, 1, false, 0},
		{"over, if the clocks run apart, and else not, asks", sighting{t0, s0, 1}, after(5 * time.Second), 7300 * time.Millisecond, 1, false, 0},
		{"after a re-made subscription asks: another server may speak", sighting{t0, s0, 1}, after(time.Second), 2 * time.Second, 2, false, 0},
	} {
		a := &attempt{began: t0, last: c.last}
		expires, ok := a.believe(lua.Message{At: c.written, Claim: claim}, t0.Add(c.received), c.session)
		if ok != c.believed || ok && expires.Sub(t0) != c.trustedTo {
			t.Errorf("a grant %s: believed %v until %v, want %v until %v", c.promise, ok, expires.Sub(t0), c.believed, c.trustedTo)
		}
	}
}

// The record ends when the server's clock says so, which may run a tenth faster than ours; so may it have done since it last
// answered us. A message that takes as long as that has brought it ahead looks as if it came at once.
func TestAGrantByAServerWhoseClockRunsFastIsNotTrustedBeyondItsRecord(t *testing.T) {
	const fast = 1.1
	for waited := time.Millisecond; waited < 30*time.Second; waited *= 2 {
		for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second} {
			t0 := time.Now()
			ticket := lua.Ticket{Counter: 1, Lease: lease}
			written := s0 + lua.Micros(fast*float64(waited.Microseconds()))
			ends := t0.Add(waited + time.Duration(float64(ticket.Claim())/fast))
			for delay := time.Duration(0); delay < ticket.Claim(); delay += ticket.Claim() / 100 {
				a := &attempt{began: t0, last: sighting{t0, s0, 1}, ticket: ticket}
				received := t0.Add(waited + delay)
				m := lua.Message{Ticket: ticket, Token: 5, At: written, Claim: ticket.Claim()}
				expires, ok := a.believe(m, received, 1)
				term := reentrant.Term{Span: m.Claim, Expires: expires}
				if trusted := term.TrustEnds(); ok && trusted.After(received) && trusted.After(ends) {
					t.Fatalf("waited %v, lease %v, message %v late: trusted %v beyond the record", waited, lease, delay, trusted.Sub(ends))
				}
			}
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
