package rules

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
		last      Sighting
		written   lua.Micros
		received  time.Duration // after t0
		session   uint64
		believed  bool
		trustedTo time.Duration // after t0
	}{
		{"counts from when the answer's request was sent, by clocks that run a tenth apart", Sighting{t0, s0, 1}, after(2 * time.Second), 2010 * time.Millisecond, 1, true, 1800*time.Millisecond + claim},
		{"is not believed longer for having come slowly", Sighting{t0, s0, 1}, after(time.Second), 3 * time.Second, 1, true, 900*time.Millisecond + claim},
		{"before any answer counts from the first request", Sighting{}, after(time.Second), 2 * time.Second, 0, true, claim},
		{"of the same microsecond is later if its token is", Sighting{t0, s0, 1}, s0, time.Millisecond, 1, true, claim},
		{"older than the answer asks", Sighting{t0, s0, 1}, s0 - 1, time.Second, 1, false, 0},
		{"further ahead than time has passed asks: the server's clock stepped", Sighting{t0, s0, 1}, after(5 * time.Second), 4 * time.Second, 1, false, 0},
		{"over, if the clocks run apart, and else not, asks", Sighting{t0, s0, 1}, after(5 * time.Second), 7300 * time.Millisecond, 1, false, 0},
		{"after a re-made subscription asks: another server may speak", Sighting{t0, s0, 1}, after(time.Second), 2 * time.Second, 2, false, 0},
	} {
		w := Waiter{Began: t0, Last: c.last}
		expires, ok := w.believe(&lua.Message{At: c.written, Claim: claim}, t0.Add(c.received), c.session)
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
				w := Waiter{Began: t0, Last: Sighting{t0, s0, 1}, Lease: lease}
				received := t0.Add(waited + delay)
				m := &lua.Message{Ticket: ticket, Token: 5, At: written, Claim: ticket.Claim()}
				expires, ok := w.believe(m, received, 1)
				term := Term{m.Claim, expires}
				if trusted := term.TrustEnds(); ok && trusted.After(received) && trusted.After(ends) {
					t.Fatalf("waited %v, lease %v, message %v late: trusted %v beyond the record", waited, lease, delay, trusted.Sub(ends))
				}
			}
		}
	}
}

func TestATicketWhoseClaimRanOutTwiceGoesToTheEnd(t *testing.T) {
	now := time.Now()
	w := Waiter{
		Began: now.Add(-time.Minute), Lease: 30 * time.Second, Place: 7,
		Last: Sighting{Sent: now.Add(-time.Minute), At: s0},
	}
	late := lua.Message{Token: 5, At: s0 + 1000, Claim: claim}
	if step := w.Heard(&late, now, 0, false); step.Do != Ask || w.Phase != Waiting || w.Place != 7 {
		t.Fatalf("after the first: %+v, %+v", step, w)
	}
	late.Token++
	if step := w.Heard(&late, now, 0, false); step.Do != Ask || w.Phase != Waiting || w.Place != 0 {
		t.Fatalf("after the second: %+v, %+v", step, w)
	}
}
