package lua

import (
	"fmt"
	"testing"
	"time"
)

// After the server has forgotten everything, both come back in either order, and nobody else comes between.
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
						answer := j.c.send(Enter{Seen: j.token, Tickets: []EnterTicket{{Ticket: j.waiter, Place: j.place}}})
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

// The first that comes back may also leave before the other is back: the lock is not free until that one has had time.
func TestAJointHolderThatLeavesAfterALossKeepsTheLockForTheOther(t *testing.T) {
	for _, before := range []string{"nothing", "a placeholder", "its own return"} {
		t.Run(before, func(t *testing.T) {
			eachJoint(t, usual, usual, func(t *testing.T, j joint) {
				j.forgetAll()
				switch before {
				case "a placeholder":
					j.c.placeholder(j.token)
				case "its own return":
					j.a.reasserts(j.a.renewal(j.one, j.token))
				}
				j.a.leaves(j.one, j.token, Held)
				answer := j.c.send(Enter{Seen: j.token, Tickets: []EnterTicket{{Ticket: j.waiter, Place: j.place}}})
				equal(t, "waiter", answer.Tickets[0].Status, Waiting)
				equal(t, "the other", j.b.reasserts(j.b.renewal(j.two, j.token)), usual)
			})
		})
	}
}

func TestALockIsFreeWhenTheTimeOfTheJointHolderThatDidNotComeBackIsOver(t *testing.T) {
	eachJoint(t, brief, brief, func(t *testing.T, j joint) {
		j.forgetAll()
		r := j.a.renewal(j.one, j.token)
		r.Lease = brief
		j.a.reasserts(r)
		j.a.leaves(j.one, j.token, Held)
		j.c.queues(j.waiter, j.place)
		j.pass(brief)
		state, _ := j.c.enter(j.waiter, j.place)
		equal(t, "status", state.Status, Granted)
	})
}

// What keeps the lock for the other joint holder lasts for a lease. After that, a hold that is over is over.
func TestWhatIsKeptForAJointHolderEndsThoughTheOtherGoesOn(t *testing.T) {
	eachJoint(t, brief, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		r := j.a.renewal(j.one, j.token)
		r.Lease = brief
		equal(t, "first", j.a.reasserts(r), brief)
		late := j.b.renewal(j.two, j.token)
		late.Lease = 2 * brief
		equal(t, "second", j.b.reasserts(late), 2*brief)
		late.Lease = usual
		equal(t, "second again", j.b.renews(late), usual)
		j.pass(2 * brief) // the first hold is over, and so is the time of those who have not come back
		equal(t, "reasserted", j.a.reasserts(r), 0)
		j.a.leaves(j.one, j.token, None)
		equal(t, "renewed", j.b.renews(late), usual)
		j.b.leaves(j.two, j.token, Held)
		equal(t, "free", j.free(), true)
	})
}

func TestAJointHoldThatReplacesAGhostEndsAtItsOwnTime(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		j.ghost(j.token-1, time.Hour)
		equal(t, "remaining", j.a.reasserts(j.a.renewal(j.one, j.token)), usual)
		equal(t, "end of the record", fmt.Sprint(j.ends(j.keys.Record), ":1"), j.field(j.one))
	})
}

func TestAJointHoldOverAPlaceholderKeepsThePlaceholdersTime(t *testing.T) {
	eachJoint(t, usual, usual, func(t *testing.T, j joint) {
		j.forgetAll()
		j.c.send(Enter{Try: true, Seen: j.token, Lease: time.Minute, Tickets: []EnterTicket{{Ticket: j.c.ticket(usual)}}})
		end := j.ends(j.keys.Record)
		j.a.reasserts(j.a.renewal(j.one, j.token))
		equal(t, "end of the record", j.ends(j.keys.Record), end)
	})
}
