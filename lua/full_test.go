package lua

import (
	"testing"
	"time"
)

func TestALineThatIsLongEnoughTakesNoMore(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		one, _ := b.waits(usual)
		two, _ := b.waits(usual)
		refused := c.ask(EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 2}, EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 1})
		for _, state := range refused.Tickets {
			equal(t, "state", state, TicketState{Status: Full})
		}
		equal(t, "waiting", refused.Waiting, 2)
		alone := c.ask(EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 2})
		equal(t, "one alone", alone.Tickets[0], TicketState{Status: Full})
		equal(t, "it sees waiting", alone.Waiting, 2)
		s.lined(one, two)
		three, four := c.ticket(usual), c.ticket(usual)
		answer := c.ask(EnterTicket{Ticket: parsed(three), MaxWaiters: 3}, EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 3}, EnterTicket{Ticket: parsed(four)})
		equal(t, "below its bound", answer.Tickets[0].Status, Waiting)
		equal(t, "at its bound", answer.Tickets[1].Status, Full)
		equal(t, "without a bound", answer.Tickets[2].Status, Waiting)
		s.lined(one, two, three, four)
	})
}

func TestAFullLineKeepsItsOwn(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		one, first := b.waits(usual)
		b.leave(LeaveTicket{Ticket: parsed(one), Place: first}) // as if the server had lost it
		s.pass(time.Millisecond)
		two, second := c.waits(usual)
		full := func(ticket string, place Place) Status {
			return b.ask(EnterTicket{Ticket: parsed(ticket), Place: place, MaxWaiters: 1}).Tickets[0].Status
		}
		equal(t, "heartbeat", full(two, second), Waiting)
		equal(t, "repeated", full(two, 0), Waiting)
		equal(t, "returning", full(one, first), Waiting)
		s.lined(one, two)
	})
}

func TestOverdueTicketsDoNotFillALine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		dead, _ := b.waits(usual)
		alive, _ := b.waits(usual)
		other, _ := b.waits(usual)
		s.age(dead, other)
		early, ticket := c.ticket(usual), c.ticket(usual)
		equal(t, "waiting", c.ask(EnterTicket{Ticket: parsed(early), MaxWaiters: 4}).Waiting, 4) // there is room, so the server sweeps nobody
		answer := c.ask(EnterTicket{Ticket: parsed(ticket), MaxWaiters: 3})
		equal(t, "status", answer.Tickets[0].Status, Waiting)
		equal(t, "position", answer.Tickets[0].Position, 3)
		equal(t, "waiting", answer.Waiting, 3)
		s.lined(alive, early, ticket)
	})
}

func TestOneEnterSweepsAHundredOverdueTickets(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		s.age(b.queueMany(150)...)
		asks := func(want Status, waiting int) {
			t.Helper()
			answer := c.ask(EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 50})
			equal(t, "status", answer.Tickets[0].Status, want)
			equal(t, "waiting", answer.Waiting, waiting)
		}
		asks(Full, 50)
		asks(Waiting, 1)
	})
}

func TestUnreachableTicketsFillALineUntilTheyAreOverdue(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		dead, _ := b.waits(usual)
		b.die()
		ask := EnterTicket{Ticket: parsed(c.ticket(usual)), MaxWaiters: 1}
		equal(t, "before", c.ask(ask).Tickets[0].Status, Full)
		s.age(dead)
		equal(t, "after", c.ask(ask).Tickets[0].Status, Waiting)
	})
}

// queueMany puts n tickets of the client in line and returns them.
func (p *party) queueMany(n int) []string {
	p.s.t.Helper()
	p.s.untidy = true // until the line is there
	defer func() { p.s.untidy = false; p.s.check() }()
	var all []string
	for len(all) < n {
		var some []EnterTicket
		for range min(n-len(all), MaxTickets) {
			some = append(some, EnterTicket{Ticket: parsed(p.ticket(usual))})
			all = append(all, some[len(some)-1].Ticket.String())
		}
		for _, state := range p.ask(some...).Tickets {
			equal(p.s.t, "status", state.Status, Waiting)
		}
	}
	return all
}

func TestOnlyANewcomerWithABoundSweepsALine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		overdue, _ := b.waits(usual)
		s.age(overdue)
		newcomers := func(bound int) []EnterTicket {
			return []EnterTicket{{Ticket: parsed(b.ticket(usual)), MaxWaiters: bound}, {Ticket: parsed(b.ticket(usual)), MaxWaiters: bound}}
		}
		equal(t, "waiting", b.ask(newcomers(0)...).Waiting, 3)
		equal(t, "waiting", b.ask(newcomers(4)...).Waiting, 4)
		_, ok := s.score(overdue)
		equal(t, "overdue one is in line", ok, false)
	})
}

func TestPlacesOfNewcomersInOneMicrosecondFollowOneAnother(t *testing.T) {
	s := onMiniredis(t)
	a, b := s.party("a"), s.party("b")
	a.holds(usual)
	answer := b.ask(EnterTicket{Ticket: parsed(b.ticket(usual))}, EnterTicket{Ticket: parsed(b.ticket(usual))}, EnterTicket{Ticket: parsed(b.ticket(usual))})
	for i, state := range answer.Tickets {
		equal(t, "place", state.Place, answer.Now+Place(i))
	}
}

func TestPositionsAreThoseBehindAllWhoWereSwept(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		overdue, _ := b.waits(usual)
		ticket, place := b.waits(usual)
		s.age(overdue)
		answer := b.ask(EnterTicket{Ticket: parsed(ticket), Place: place, Tell: true}, EnterTicket{Ticket: parsed(b.ticket(usual)), MaxWaiters: 2, Tell: true})
		equal(t, "first", answer.Tickets[0].Position, 1)
		equal(t, "newcomer", answer.Tickets[1].Position, 2)
	})
}
