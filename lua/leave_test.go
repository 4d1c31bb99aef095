package lua

import (
	"fmt"
	"testing"
	"time"
)

func TestAHolderThatLeavesLeavesOnlyItsTokenBehind(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		end := s.ends(s.keys.Token())
		left := a.leaves(ticket, token, Held)
		equal(t, "left", fmt.Sprint(left), fmt.Sprint(Left{Were: []Was{Held}}))
		equal(t, "all keys", s.dump(), fmt.Sprintf("%s until %d: %q\n", s.keys.Token(), end, fmt.Sprint(token)))
		_, next := a.holds(usual)
		if next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
	})
}

func TestASecondLeaveIsNoneAndChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		ticket, token := a.holds(usual)
		a.leaves(ticket, token, Held)
		s.unchanged(func() { a.leaves(ticket, token, Neither) })

		b.holds(usual)
		waiter, place := c.waits(usual)
		c.waits(usual)
		s.unchanged(func() { a.leaves(ticket, token, Neither) })
		c.leave(LeaveTicket{Ticket: parsed(waiter), Place: place})
		s.unchanged(func() {
			equal(t, "twice", c.leave(LeaveTicket{Ticket: parsed(waiter), Place: place}).Were[0], Neither)
			c.leaves(waiter, 0, Neither)
		})
	})
}

func TestAStrangerThatLeavesChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		b.waits(usual)
		s.unchanged(func() {
			for _, stranger := range []string{c.ticket(usual), c.owned("a", usual), "a:2:30000::", "a:1:30001::", "b:2:30000::"} {
				for _, at := range []int64{0, token, token + 1} {
					left := c.leave(LeaveTicket{Ticket: parsed(stranger), Place: Place(at), Token: at})
					equal(t, "state of "+stranger, left.Were[0], Neither)
				}
			}
		})
		a.leaves(hold, token, Held)
	})
}

func TestAStrangerThatLeavesALoneHolderChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, c := s.party("a"), s.party("c")
		_, token := a.holds(usual)
		s.unchanged(func() {
			c.leaves(c.ticket(usual), 0, Neither)
			c.leaves(c.ticket(usual), token, Neither)
			c.leaves(c.owned("a:1", usual), token, Neither)
			c.leave()
		})
	})
}

func TestAnExpiredHoldIsNeverLeftCleanly(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		for range 2 {
			ticket, token := a.holds(brief)
			s.pass(brief)
			s.unchanged(func() { a.leaves(ticket, token, Neither) })
		}
		ticket, token := a.holds(brief)
		s.pass(brief)
		b.holds(usual)
		s.unchanged(func() { a.leaves(ticket, token, Neither) })
	})
}

func TestAWaiterThatLeavesIsOutOfTheLineWhetherItKnowsItsPlaceOrNot(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		tickets := b.queueMany(1101)
		s.untidy = true // a look at so many takes its time
		places := map[int]Place{}
		for _, i := range []int{0, 500, 1100} {
			places[i] = b.queues(tickets[i])
		}
		for _, i := range []int{1100, 1099, 550, 501, 500, 499, 1, 0} {
			left := b.leave(LeaveTicket{Ticket: parsed(tickets[i]), Place: places[i]})
			equal(t, "state", left.Were[0], Waited)
			tickets = append(tickets[:i], tickets[i+1:]...)
			s.lined(tickets...)
		}
		s.untidy = false
		s.check()
	})
}

func TestTheLastWaiterThatLeavesTakesTheLineWithIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		ticket, _ := b.waits(usual)
		b.leaves(ticket, 0, Waited)
		equal(t, "no line", s.gone(s.keys.Queue(), s.keys.Waiters()), true)
	})
}

func TestAWaiterThatLeavesAFreeLockWakesTheNext(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		first, place := b.waits(usual)
		next, _ := c.waits(usual)
		s.endRecord()
		equal(t, "state", b.leave(LeaveTicket{Ticket: parsed(first), Place: place}).Were[0], Waited)
		c.granted(next)
		s.lined()
	})
}

func TestALeaveWithoutTicketsOnlyLetsAFreeLockAdvance(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		equal(t, "no states", len(c.leave().Were), 0)
		equal(t, "nothing", s.dump(), "")
		a.holds(usual)
		next, _ := b.waits(usual)
		s.unchanged(func() { c.leave() })
		s.endRecord()
		c.leave()
		b.granted(next)
	})
}

func TestManyTicketsLeaveInOneRequestEachWithItsOwnState(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		one, place := a.waits(usual)
		next, _ := b.waits(usual)
		two, _ := a.waits(usual)
		left := a.leave(LeaveTicket{Ticket: parsed(one), Place: place}, LeaveTicket{Ticket: parsed(a.ticket(usual))},
			LeaveTicket{Ticket: parsed(hold), Token: token}, LeaveTicket{Ticket: parsed(two)}, LeaveTicket{Ticket: parsed(two)})
		equal(t, "states", fmt.Sprint(left.Were), fmt.Sprint([]Was{Waited, Neither, Held, Waited, Neither}))
		equal(t, "grant", left.Grant, nil)
		b.granted(next)
		s.lined()
	})
}

func TestATicketThatLeavesIsNotGrantedByItsOwnLeaving(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		hold, token := a.holds(usual)
		next, place := a.waits(usual)
		left := a.leave(LeaveTicket{Ticket: parsed(hold), Token: token}, LeaveTicket{Ticket: parsed(next), Place: place})
		equal(t, "grant", left.Grant, nil)
		equal(t, "free", s.gone(s.keys.Record(), s.keys.Queue()), true)
	})
}

func TestAGrantThatNobodyWantsIsHandedOn(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		unwanted, place := b.waits(usual)
		next, _ := c.waits(usual)
		a.leaves(hold, token, Held)
		granted := b.granted(unwanted)
		left := b.leave(LeaveTicket{Ticket: parsed(unwanted), Place: place, Token: granted, Retire: true})
		equal(t, "state", left.Were[0], Held)
		c.granted(next)
		s.pass(time.Millisecond)
		state, _ := b.enter(unwanted, place)
		equal(t, "state", state, TicketState{Status: Gone})
	})
}

func TestATicketThatALateEnterPutInAnotherPlaceLeavesTheLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		ticket, place := b.waits(usual)
		s.forgetLine()
		s.pass(time.Millisecond)
		b.enter(ticket) // its first one, again
		state, _ := b.enter(ticket, place)
		equal(t, "status", state.Status, Waiting)
		next, _ := c.waits(usual)
		equal(t, "left", b.leave(LeaveTicket{Ticket: parsed(ticket), Place: place}).Were[0], Waited)
		s.lined(next)
	})
}
