package lua

import (
	"fmt"
	"testing"
	"time"
)

// After the server has forgotten everything, both joint holders come back in either order, and no
// other client takes the lock in between.
func TestJointHoldersComeBackInEitherOrder(t *testing.T) {
	for _, order := range []string{"ab", "ba"} {
		for _, enters := range []string{"nobody", "first", "between"} {
			t.Run(order+" "+enters, func(t *testing.T) {
				eachJoint(t, usual, usual, func(t *testing.T, j joint) {
					j.forgetAll()
					if order == "ba" {
						j.a, j.b, j.one, j.two = j.b, j.a, j.two, j.one
					}
					waiterEnters := func() {
						answer := j.c.send(Enter{Seen: j.token, Tickets: []EnterTicket{{Ticket: parsed(j.waiter), Place: j.place}}})
						equal(t, "waiter", answer.Tickets[0].Status, Waiting)
					}
					if enters == "first" {
						waiterEnters()
					}
					equal(t, "first", j.a.reasserts(j.a.renewal(j.one, j.token)), usual)
					equal(t, "owner", j.field("owner"), "saga-7")
					if enters == "between" {
						waiterEnters()
					}
					equal(t, "second", j.b.reasserts(j.b.renewal(j.two, j.token)), usual)
					equal(t, "token", j.field("token"), fmt.Sprint(j.token))
					j.a.leaves(j.one, j.token, Held)
					equal(t, "renewed", j.b.renews(j.b.renewal(j.two, j.token)), usual)
					equal(t, "free", j.free(), false)
				})
			})
		}
	}
}

// The first joint holder that comes back may leave before the other one is back. The lock then is
// not free until the other one has had time to come back.
func TestAJointHolderThatLeavesAfterALossKeepsTheLockForTheOther(t *testing.T) {
	for _, before := range []string{"nothing", "a placeholder", "a placeholder for one before", "its own return"} {
		t.Run(before, func(t *testing.T) {
			eachJoint(t, usual, usual, func(t *testing.T, j joint) {
				j.forgetAll()
				switch before {
				case "a placeholder":
					j.c.placeholder(j.token)
				case "a placeholder for one before":
					j.c.placeholder(j.token - 1)
				case "its own return":
					j.a.reasserts(j.a.renewal(j.one, j.token))
				}
				j.a.leaves(j.one, j.token, Held)
				answer := j.c.send(Enter{Seen: j.token, Tickets: []EnterTicket{{Ticket: parsed(j.waiter), Place: j.place}}})
				equal(t, "waiter", answer.Tickets[0].Status, Waiting)
				equal(t, "the other", j.b.reasserts(j.b.renewal(j.two, j.token)), usual)
			})
		})
	}
}

func TestALockIsFreeWhenTheTimeOfTheJointHolderThatDidNotComeBackIsOver(t *testing.T) {
	for passes, want := range map[time.Duration]Status{usual - time.Millisecond: Waiting, usual: Granted} {
		s := onMiniredis(t)
		a, c := s.party("a"), s.party("c")
		ticket := a.owned("saga-7", usual)
		token := a.takes(ticket)
		waiter, place := c.waits(usual)
		s.forgetAll()
		a.reasserts(a.renewal(ticket, token))
		a.leaves(ticket, token, Held)
		c.queues(waiter, place)
		s.pass(passes - 2*time.Millisecond) // pass adds two milliseconds
		state, _ := c.enter(waiter, place)
		equal(t, "after "+passes.String(), state.Status, want)
	}
}

// The server keeps the lock for the missing joint holder for one lease. After that, an ended hold
// stays ended.
func TestWhatIsKeptForAJointHolderEndsThoughTheOtherGoesOn(t *testing.T) {
	for what, act := range map[string]func(t *testing.T, a *party, r Renewal){
		"reassert": func(t *testing.T, a *party, r Renewal) { equal(t, "remaining", a.reasserts(r), 0) },
		"leave":    func(t *testing.T, a *party, r Renewal) { a.leaves(r.Ticket.String(), r.Token, Neither) },
	} {
		t.Run(what, func(t *testing.T) {
			s := onMiniredis(t)
			a, b := s.party("a"), s.party("b")
			one, two := a.owned("saga-7", usual), b.owned("saga-7", usual)
			token := a.takes(one)
			b.takes(two)
			s.forgetAll()
			ofA, ofB := a.renewal(one, token), b.renewal(two, token)
			equal(t, "first", a.reasserts(ofA), usual)
			equal(t, "second", b.reasserts(ofB), usual)
			ofB.Lease = time.Hour
			equal(t, "second again", b.renews(ofB), time.Hour)
			s.pass(usual) // ends the first hold and the time for coming back
			act(t, a, ofA)
			b.leaves(two, token, Held)
			equal(t, "free", s.gone(s.keys.Record()), true)
		})
	}
}

func TestAJointHoldThatReplacesAGhostEndsAtItsOwnTime(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		j.ghost(j.token-1, time.Hour)
		equal(t, "remaining", j.a.reasserts(j.a.renewal(j.one, j.token)), usual)
		equal(t, "end of the record", fmt.Sprint(j.ends(j.keys.Record()), ":1"), j.field(j.one))
	})
}

func TestAJointHoldOverAPlaceholderKeepsThePlaceholdersTime(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		j.c.send(Enter{Try: true, Seen: j.token, Spare: time.Minute, Tickets: []EnterTicket{{Ticket: parsed(j.c.ticket(usual))}}})
		end := j.ends(j.keys.Record())
		j.a.reasserts(j.a.renewal(j.one, j.token))
		if got := j.ends(j.keys.Record()); got < end || got > end+10_000 {
			t.Fatalf("the record ends at %d, the placeholder did at %d", got, end)
		}
	})
}

func TestAFixedJointHoldThatIsWrittenAgainKeepsTheLockForALease(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		r := j.a.renewal(j.one, j.token)
		r.Lease, r.Until = 0, j.now()+Micros(time.Second.Microseconds())
		j.a.reasserts(r)
		end := j.ends(j.keys.Record())
		equal(t, "kept", j.field("kept"), fmt.Sprint(end, ":0"))
		if left := end - int64(j.now())/1000; left < 25_000 || left > 30_000 {
			t.Fatalf("kept for %d ms", left)
		}
		equal(t, "hold", j.field(j.one), fmt.Sprint(int64(r.Until)/1000, ":1"))
	})
}
