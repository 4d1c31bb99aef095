package lua

import "testing"

// waiter returns the ticket in line as inspection shows it.
func (p *party) waiter(ticket string) Waiter {
	p.s.t.Helper()
	for _, w := range p.inspects().Waiters {
		if w.Ticket.String() == ticket {
			return w
		}
	}
	p.s.t.Fatalf("%s is not in line", ticket)
	return Waiter{}
}

func (p *party) evicts(w Waiter) bool {
	p.s.t.Helper()
	done, err := p.Evict(ctx, p.s.keys, w)
	must(p.s.t, err)
	p.s.check()
	return done
}

func TestAnEvictedWaiterIsToldAndCannotComeBack(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		first, place := b.waits(usual)
		next, _ := b.waits(usual)
		w := admin.waiter(first)
		equal(t, "evicted", admin.evicts(w), true)
		equal(t, "message", b.hears(), Message{News: Evicts, Ticket: w.Ticket, Record: s.keys.Record()})
		s.lined(next)
		state, _ := b.enter(first, place)
		equal(t, "status", state.Status, Gone)
		s.unchanged(func() { equal(t, "evicted again", admin.evicts(w), false) })
		a.leaves(hold, token, Held)
		b.granted(next)
	})
}

func TestWhoeverIsNotInLineIsNotEvicted(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		ticket, _ := b.waits(usual)
		w := admin.waiter(ticket)
		a.leaves(hold, token, Held)
		b.granted(ticket)
		s.unchanged(func() { equal(t, "evicted", admin.evicts(w), false) })
	})
}

func TestNobodyIsEvictedBesideDeadlinesOfAnotherType(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, other := range wrong("waiters") {
			s.forgetAll()
			l := newTyped(s)
			w := l.a.waiter(l.waiter)
			evict := func(l typed) error { _, err := l.a.Evict(ctx, s.keys, w); return err }
			s.spoil(s.keys.Waiters(), other)
			s.unchanged(func() { s.refused(request{"an eviction", nil, evict}, l, "WRONGTYPE", "waiters is a "+other) })
			s.untidy = false
		}
	})
}

func TestTheLastWaiterMayBeEvicted(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, admin := s.party("a"), s.party("b"), s.deaf("admin")
		hold, token := a.holds(usual)
		ticket, _ := b.waits(usual)
		equal(t, "evicted", admin.evicts(admin.waiter(ticket)), true)
		s.lined()
		a.leaves(hold, token, Held)
		equal(t, "free", s.gone(s.keys.Record(), s.keys.Queue()), true)
	})
}

func TestAWaiterThatAsksIsToldItsPositionEveryTime(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		first, place := b.waits(usual)
		second, after := b.waits(usual)
		answer := b.ask(EnterTicket{Ticket: parsed(first), Place: place}, EnterTicket{Ticket: parsed(second), Place: after, Tell: true})
		equal(t, "position of one that does not ask", answer.Tickets[0].Position, 0)
		equal(t, "position", answer.Tickets[1].Position, 2)
		b.leaves(first, 0, Waited)
		equal(t, "position", b.ask(EnterTicket{Ticket: parsed(second), Place: after, Tell: true}).Tickets[0].Position, 1)
		answer = b.ask(EnterTicket{Ticket: parsed(first), Place: place, Tell: true}, EnterTicket{Ticket: parsed(b.ticket(usual)), Tell: true})
		equal(t, "one that left and came back", answer.Tickets[0].Returned, true)
		equal(t, "its position", answer.Tickets[0].Position, 1)
		equal(t, "position of a new one", answer.Tickets[1].Position, 3)
	})
}

func TestPositionsAreThoseBehindAllWhoReturnInTheRequest(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		var all []EnterTicket
		for range 3 {
			ticket, place := b.waits(usual)
			all = append(all, EnterTicket{Ticket: parsed(ticket), Place: place, Tell: true})
		}
		b.leaves(all[1].Ticket.String(), 0, Waited)
		for i, state := range b.ask(all...).Tickets {
			equal(t, "position", state.Position, i+1)
		}
	})
}

func TestPositionsAreThoseBehindAllWhoJoinTheirOwnerInTheRequest(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		a.queues(a.owned("saga", usual))
		var all []EnterTicket
		for _, owner := range []string{"", "saga", ""} {
			ticket := b.owned(owner, usual)
			all = append(all, EnterTicket{Ticket: parsed(ticket), Place: b.queues(ticket), Tell: true})
		}
		a.leaves(hold, token, Held)
		answer := b.ask(all...)
		equal(t, "first", answer.Tickets[0].Position, 1)
		equal(t, "joint owner", answer.Tickets[1].Status, Granted)
		equal(t, "last", answer.Tickets[2].Position, 2)
	})
}
