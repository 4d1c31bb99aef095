package lua

import (
	"testing"
	"time"
)

// late has the ways in which a late first attempt may arrive.
var late = map[string]func(p *party, ticket string) Status{
	"as to wait": func(p *party, ticket string) Status { state, _ := p.enter(ticket); return state.Status },
	"as to try":  func(p *party, ticket string) Status { state, _ := p.try(ticket); return state.Status },
	"among others": func(p *party, ticket string) Status {
		return p.ask(EnterTicket{Ticket: parsed(p.ticket(usual))}, EnterTicket{Ticket: parsed(ticket)}).Tickets[1].Status
	},
}

func TestALateEnterOfARetiredTicketOfAFreeLockIsNoGhost(t *testing.T) {
	for _, how := range []string{"as to wait", "as to try"} {
		t.Run(how, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a := s.party("a")
				ticket := a.ticket(usual)
				left := a.leave(LeaveTicket{Ticket: parsed(ticket), Retire: true})
				equal(t, "left", left.Were[0], Neither)
				s.unchanged(func() { equal(t, "status", late[how](a, ticket), Gone) })
				equal(t, "free and empty", s.gone(s.keys.Record(), s.keys.Queue()), true)
				s.pass(time.Millisecond)
				equal(t, "again", late[how](a, ticket), Gone)
				a.holds(usual)
			})
		})
	}
}

func TestALateEnterOfARetiredTicketIsNotInLine(t *testing.T) {
	for how, enters := range late {
		t.Run(how, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a, b := s.party("a"), s.party("b")
				a.holds(usual)
				first, _ := a.waits(usual)
				ticket, place := b.waits(usual)
				b.leave(LeaveTicket{Ticket: parsed(ticket), Place: place, Retire: true})
				s.lined(first)
				equal(t, "status", enters(b, ticket), Gone)
				for _, lined := range s.line() {
					if lined == ticket {
						t.Fatal("it is in line")
					}
				}
				state, _ := b.enter(ticket, place)
				equal(t, "with its place", state.Status, Gone)
			})
		})
	}
}

func TestALateEnterOfARetiredHolderIsNoGhost(t *testing.T) {
	for _, how := range []string{"as to wait", "as to try"} {
		t.Run(how, func(t *testing.T) {
			each(t, func(t *testing.T, s *site) {
				a := s.party("a")
				ticket, token := a.holds(usual)
				left := a.leave(LeaveTicket{Ticket: parsed(ticket), Token: token, Retire: true})
				equal(t, "left", left.Were[0], Held)
				equal(t, "status", late[how](a, ticket), Gone)
				equal(t, "free and empty", s.gone(s.keys.Record(), s.keys.Queue()), true)
			})
		})
	}
}

// The line of the free lock has dead tickets, so enter takes its long path.
func TestALateTryOfARetiredTicketDoesNotTakeALockWhoseLineIsDead(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		b.waits(usual)
		b.die()
		ticket := a.ticket(usual)
		a.leave(LeaveTicket{Ticket: parsed(ticket), Retire: true})
		must(t, s.rdb.Del(ctx, s.keys.Record()).Err())
		state, _ := a.try(ticket)
		equal(t, "status", state.Status, Gone)
		equal(t, "free", s.gone(s.keys.Record()), true)
	})
}

func TestARetiredTicketIsRememberedForAMinute(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		before := int64(s.now()) / 1000
		ticket := a.ticket(usual)
		a.leave(LeaveTicket{Ticket: parsed(ticket), Retire: true})
		mark, ok := s.score("!" + ticket)
		if end := -mark; !ok || end < before+60_000 || end > int64(s.now())/1000+60_000 {
			t.Fatalf("remembered until %d", end)
		}
		equal(t, "end of the key", s.ends(s.keys.Waiters()), -mark)
		b := s.party("b")
		b.holds(usual)
		a.waits(usual)
		if end := s.ends(s.keys.Waiters()); end < -mark {
			t.Fatalf("the key of the mark ends at %d", end)
		}
	})
}

func TestARetiringLeaveSweepsTheMarksThatAreOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.deaf("b")
		hold, _ := a.holds(usual)
		b.waits(usual)
		for range 3 {
			a.leave(LeaveTicket{Ticket: parsed(a.ticket(usual)), Retire: true})
		}
		s.age("~b", "!a:2:30000::", "!a:4:30000::", "b:1:30000::")
		a.leave(LeaveTicket{Ticket: parsed(a.ticket(usual)), Retire: true})
		for member, want := range map[string]bool{
			"~b": false, "!a:2:30000::": false, "!a:3:30000::": true, "!a:4:30000::": false,
			"!a:5:30000::": true, "b:1:30000::": true,
		} {
			_, there := s.score(member)
			equal(t, member, there, want)
		}
		equal(t, "the holder holds", s.field(hold) != "", true)
	})
}

func TestMarksAreNoWaiters(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.deaf("a"), s.deaf("b")
		a.holds(usual)
		for range 3 {
			b.leave(LeaveTicket{Ticket: parsed(b.ticket(usual)), Retire: true})
		}
		answer := b.ask(EnterTicket{Ticket: parsed(b.ticket(usual)), MaxWaiters: 1})
		equal(t, "status", answer.Tickets[0].Status, Waiting)
		equal(t, "waiting", answer.Waiting, 1)
		equal(t, "inspected", b.inspects().Waiting, 1)
	})
}

func TestALateReassertOfARetiredTicketDoesNotResurrectIt(t *testing.T) {
	for _, owner := range []string{"", "saga-7"} {
		each(t, func(t *testing.T, s *site) {
			a := s.party("a")
			ticket := a.owned(owner, usual)
			token := a.takes(ticket)
			s.forgetAll()
			other := a.ticket(usual)
			a.send(Enter{Try: true, Seen: token, Tickets: []EnterTicket{{Ticket: parsed(other)}}}) // makes a placeholder
			left := a.leave(LeaveTicket{Ticket: parsed(ticket), Token: token, Retire: true})
			equal(t, "left", left.Were[0], Held)
			s.unchanged(func() { equal(t, "remaining", a.reasserts(a.renewal(ticket, token)), 0) })
		})
	}
}

func (s *site) forgetAll() { must(s.t, s.rdb.FlushAll(ctx).Err()) }
