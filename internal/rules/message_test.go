package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

func TestAGrantIsBelievedUntilNoLaterThanItsClaimLastsAtTheServer(t *testing.T) {
	after := func(d time.Duration) lua.Micros { return s0 + lua.Micros(d.Microseconds()) }
	for _, c := range []struct {
		promise   string
		last      ClockPair
		written   lua.Micros
		received  time.Duration // after t0
		session   uint64
		believed  bool
		trustedTo time.Duration // after t0
	}{
		{"counts from when the answer's request was sent, by clocks that run a tenth apart", ClockPair{t0, s0, 1}, after(2 * time.Second), 2010 * time.Millisecond, 1, true, 1800*time.Millisecond + claim},
		{"is not believed longer for having come slowly", ClockPair{t0, s0, 1}, after(time.Second), 3 * time.Second, 1, true, 900*time.Millisecond + claim},
		{"before any answer counts from the first request", ClockPair{}, after(time.Second), 2 * time.Second, 0, true, claim},
		{"of the same microsecond is later if its token is", ClockPair{t0, s0, 1}, s0, time.Millisecond, 1, true, claim},
		{"older than the answer asks", ClockPair{t0, s0, 1}, s0 - 1, time.Second, 1, false, 0},
		{"further ahead than time has passed asks: the server's clock stepped", ClockPair{t0, s0, 1}, after(5 * time.Second), 4 * time.Second, 1, false, 0},
		{"over, if the clocks run apart, and else not, asks", ClockPair{t0, s0, 1}, after(5 * time.Second), 7300 * time.Millisecond, 1, false, 0},
		{"after a re-made subscription asks: another server may speak", ClockPair{t0, s0, 1}, after(time.Second), 2 * time.Second, 2, false, 0},
	} {
		w := Waiter{Began: t0, Last: c.last}
		expires, ok := w.believe(&lua.Message{At: c.written, Claim: claim}, t0.Add(c.received), c.session)
		if ok != c.believed || ok && expires.Sub(t0) != c.trustedTo {
			t.Errorf("a grant %s: believed %v until %v, want %v until %v", c.promise, ok, expires.Sub(t0), c.believed, c.trustedTo)
		}
	}
}

// The record ends by the server's clock, which may run a tenth faster than the client's. So that
// clock is ahead by a tenth of the time since the server's last answer. A message that is late by
// as much looks as if it came at once.
func TestAGrantByAServerWhoseClockRunsFastIsNotTrustedBeyondItsRecord(t *testing.T) {
	const fast = 1.1
	for waited := time.Millisecond; waited < 30*time.Second; waited *= 2 {
		for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second} {
			t0 := time.Now()
			ticket := lua.Ticket{Counter: 1, Lease: lease}
			written := s0 + lua.Micros(fast*float64(waited.Microseconds()))
			ends := t0.Add(waited + time.Duration(float64(ticket.Claim())/fast))
			for delay := time.Duration(0); delay < ticket.Claim(); delay += ticket.Claim() / 100 {
				w := Waiter{Began: t0, Last: ClockPair{t0, s0, 1}, Lease: lease}
				received := t0.Add(waited + delay)
				m := &lua.Message{News: lua.Grants, Ticket: ticket, Token: 5, At: written, Claim: ticket.Claim()}
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
	w := Waiter{
		Began: t0.Add(-time.Minute), Lease: lease, Place: 7,
		Last: ClockPair{Sent: t0.Add(-time.Minute), At: s0},
	}
	late := lua.Message{News: lua.Grants, Token: 5, At: s0 + 1000, Claim: claim}
	for range 2 {
		for _, place := range []lua.Place{7, 0} {
			want(t, "late", w.Heard(&late, t0, 0, false), Step{Do: Ask})
			if w.Phase != Waiting || w.Place != place {
				t.Fatalf("after a late grant: %+v, want the place %d", w, place)
			}
			late.Token++
		}
		w.Place = 7
	}
}

func TestAGrantIsTakenWhileItCanBeTrusted(t *testing.T) {
	trust := claim - Margin(claim)
	for after, step := range map[time.Duration]Step{
		trust - 1: {Do: Take, Term: Term{claim, t0.Add(claim)}},
		trust:     {Do: Ask},
	} {
		w := waiting()
		want(t, after.String(), w.Heard(&lua.Message{News: lua.Grants, Token: 5, At: s0, Claim: claim}, t0.Add(after), 0, false), step)
		if taken := w.Phase == Granted; taken != (step.Do == Take) {
			t.Errorf("%v after it was written: phase %d", after, w.Phase)
		}
	}
}

func TestAMessageIsBelievedOnlyIfItsTokenIsLargerThanAnyShownWhileWaiting(t *testing.T) {
	for token, do := range map[int64]Do{7: Nothing, 8: Nothing, 9: Take} {
		w := seen() // when the largest token was 8
		if step := w.Heard(&lua.Message{News: lua.Grants, Token: token, At: s0, Claim: claim}, t0, 0, false); step.Do != do {
			t.Errorf("token %d: %+v", token, step)
		}
	}
}

func TestAMessageForATicketThatDoesNotWait(t *testing.T) {
	grant, hint, evicted := lua.Message{News: lua.Grants, Token: 9, At: s0, Claim: claim}, lua.Message{News: lua.Recalls}, lua.Message{News: lua.Evicts}
	held, leaving, left := waiting(), seen(), gone()
	held.Told(granted(8, lease), 8, at, t0, false)
	leaving.GivesUp(false)
	for what, w := range map[string]*Waiter{"that has the lock": &held, "whose leave is under way": &leaving} {
		for _, m := range []*lua.Message{&grant, &hint, &evicted} {
			want(t, what, w.Heard(m, t0, 0, false), Step{})
		}
	}
	want(t, "a hint for one that has left", left.Heard(&hint, t0, 0, false), Step{})
	want(t, "an eviction of one that has left", left.Heard(&evicted, t0, 0, false), Step{})
	want(t, "a grant for one that has left", left.Heard(&grant, t0, 0, false), Step{Do: LeaveLine})
	want(t, "and again", left.Heard(&grant, t0, 0, false), Step{})
}

func TestWhoWaitsAsksAtAHintAndLeavesWhenEvicted(t *testing.T) {
	w := seen()
	want(t, "a hint", w.Heard(&lua.Message{News: lua.Recalls}, t0, 0, false), Step{Do: Ask})
	want(t, "evicted", w.Heard(&lua.Message{News: lua.Evicts}, t0, 0, false), Step{Do: End, Why: Evicted, Leave: true})
	w = waiting()
	want(t, "evicted before it was answered", w.Heard(&lua.Message{News: lua.Evicts}, t0, 0, true), Step{Do: End, Why: Evicted, Leave: true})
}

func TestWhoHearsFromTheServerBeforeItIsAnsweredStandsInLine(t *testing.T) {
	for what, m := range map[string]*lua.Message{
		"a grant, too late": {News: lua.Grants, Token: 9, At: s0, Claim: claim}, "a hint": {News: lua.Recalls},
	} {
		w := waiting()
		want(t, what, w.Heard(m, t0.Add(claim), 0, false), Step{Do: Ask})
		want(t, "an error that passes, after "+what, w.Unanswered(proto("LOADING not yet"), t0.Add(claim), false), Step{Do: Ask})
		want(t, "the end, after "+what, w.GivesUp(false), Step{Do: End, Why: GaveUp, Leave: true})
	}
}

func TestWhatWasForcedBeforeItsAnswerCameIsNoLock(t *testing.T) {
	for token, step := range map[int64]Step{
		8:  {Do: End, Why: Forced, Leave: true},
		9:  {Do: End, Why: Forced, Leave: true},
		10: {Do: Take, Term: Term{lease, t0.Add(lease)}},
	} {
		w := waiting()
		want(t, "the message", w.Heard(&lua.Message{News: lua.Forces, Token: 9}, t0, 0, true), Step{})
		w.Heard(&lua.Message{News: lua.Forces, Token: 4}, t0, 0, true)
		doubled := w
		want(t, "the grant that was forced, once more", doubled.Heard(&lua.Message{News: lua.Grants, Token: 9, At: s0, Claim: claim}, t0, 0, true), Step{})
		want(t, "the answer", w.Told(granted(token, lease), token, at, t0, false), step)
	}
}

func TestAMessageConcernsATicketThatItNamesWholeForTheLockThatItNames(t *testing.T) {
	ours, other := lua.NewTicket("c", 1, lease, "", ""), lua.NewTicket("c", 1, lease, "saga", "")
	for _, c := range []struct {
		record string
		ticket lua.Ticket
		want   bool
	}{{"r", ours, true}, {"r", other, false}, {"s", ours, false}, {"s", other, false}} {
		if got := Concerns(c.record, c.ticket, "r", ours); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
