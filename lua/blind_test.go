package lua

import (
	"fmt"
	"testing"
	"time"
)

func TestAWaiterWhoseChannelIsNotHeardIsMarkedBlindForThreeSeconds(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.deaf("b")
		a.holds(usual)
		ticket := b.ticket(usual)
		state, answer := b.enter(ticket)
		equal(t, "heard", answer.Heard, false)
		mark, _ := s.score("~b")
		equal(t, "end of the mark", -mark, int64(answer.Now)/1000+3000)
		s.pass(10 * time.Millisecond)
		_, again := b.enter(ticket, state.Place)
		mark, _ = s.score("~b")
		equal(t, "end of the mark after a heartbeat", -mark, int64(again.Now)/1000+3000)

		b.listen()
		_, again = b.enter(ticket, state.Place)
		equal(t, "heard", again.Heard, true)
		if _, marked := s.score("~b"); marked {
			t.Fatal("still blind though heard")
		}
		b.die()
		_, again = b.enter(ticket, state.Place)
		equal(t, "heard", again.Heard, false)
		if _, marked := s.score("~b"); !marked {
			t.Fatal("not blind though not heard")
		}
	})
}

func TestNobodyIsMarkedWithoutALine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.deaf("a"), s.deaf("b")
		a.holds(usual)
		_, answer := b.try(b.ticket(usual))
		equal(t, "heard", answer.Heard, false)
		equal(t, "no marks", s.gone(s.keys.Waiters(), s.keys.Queue()), true)
	})
}

func TestNobodyIsMarkedThatShares(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.deaf("a"), s.deaf("b")
		token := a.takes(a.owned("saga-7", usual))
		equal(t, "joint token", b.takes(b.owned("saga-7", usual)), token)
		equal(t, "no marks", s.gone(s.keys.Waiters(), s.keys.Queue()), true)
	})
}

func TestATryThatMendsTheLineLeavesItsClientBlind(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.deaf("b")
		a.holds(usual)
		b.waits(usual)
		ticket, _ := b.waits(usual)
		must(t, s.rdb.ZRem(ctx, s.keys.Waiters(), ticket).Err())
		b.try(b.ticket(usual))
		_, marked := s.score("~b")
		equal(t, "blind", marked, true)
	})
}

func TestABlindWaiterIsGrantedInItsTurnUnasked(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.deaf("b"), s.party("c")
		hold, token := a.holds(usual)
		blind, place := b.waits(usual)
		next, _ := c.waits(usual)
		a.leaves(hold, token, Held)
		state, _ := b.enter(blind, place)
		equal(t, "status", state.Status, Granted)
		c.hearsNothing()
		s.lined(next)
	})
}

func TestABlindWaiterIsPassedOverWhenItsMarkIsOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.deaf("b"), s.party("c")
		hold, token := a.holds(usual)
		blind, place := b.waits(usual)
		next, _ := c.waits(usual)
		s.age("~b")
		a.leaves(hold, token, Held)
		c.granted(next)
		s.lined()
		b.queues(blind, place)
	})
}

func TestABlindWaiterIsPassedOverAfterThreeSecondsOfSilence(t *testing.T) {
	for silence, granted := range map[time.Duration]bool{2999 * time.Millisecond: true, 3000 * time.Millisecond: false} {
		s := onMiniredis(t)
		a, b := s.party("a"), s.deaf("b")
		hold, token := a.holds(usual)
		ticket, _ := b.waits(usual)
		s.pass(silence - 2*time.Millisecond) // and two more
		a.leaves(hold, token, Held)
		equal(t, "granted after "+silence.String(), s.field(ticket) != "", granted)
	}
}

// A monitor that subscribes to every channel is no waiter: the server must not take a dead client
// for alive because of it.
func TestAMonitorOfAllChannelsIsNoSubscriber(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		monitor := s.rdb.PSubscribe(ctx, "*")
		t.Cleanup(func() { _ = monitor.Close() }) // nothing depends on how a connection ends
		_, err := monitor.Receive(ctx)
		must(t, err)
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		b.waits(usual)
		next, _ := c.waits(usual)
		b.die()
		a.leaves(hold, token, Held)
		c.granted(next)
		s.lined()
		d := s.deaf("d")
		_, answer := d.enter(d.ticket(usual))
		equal(t, "heard", answer.Heard, false)
	})
}

// A server that has lost data may grant the lock to a ticket whose call is over. The client of the
// ticket hears of the grant when it listens again.
func TestABlindClientIsToldOfAGrantThatItDidNotAskAbout(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, d := s.party("a"), s.deaf("d")
		hold, token := a.holds(usual)
		forgotten, _ := d.waits(usual)
		a.leaves(hold, token, Held)
		s.pass(10 * time.Millisecond)
		answer := d.send(Enter{Tickets: []EnterTicket{{Ticket: parsed(d.ticket(usual))}}})
		if g := answer.Grant; g == nil || g.Ticket != parsed(forgotten) || g.Token <= token || g.Remaining <= 0 || g.Remaining > Claim {
			t.Fatalf("%+v", g)
		}
		equal(t, "since", fmt.Sprint(int64(answer.Grant.Since)), s.field("since")+"000")
		equal(t, "status", answer.Tickets[0].Status, Waiting)
		d.leaves(forgotten, answer.Grant.Token, Held)
	})
}

func TestAClientThatIsHeardAgainIsNotBlindWhoeverOfItEnters(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.deaf("b")
		a.holds(usual)
		b.waits(usual)
		b.listen()
		b.waits(usual)
		_, marked := s.score("~b")
		equal(t, "blind", marked, false)
	})
}

func TestABlindClientIsToldOfAGrantOnlyWithItsToken(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, d := s.party("a"), s.deaf("d")
		hold, token := a.holds(usual)
		d.waits(usual)
		a.leaves(hold, token, Held)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "token", 1).Err())
		equal(t, "the smallest token", d.ask(EnterTicket{Ticket: parsed(d.ticket(usual))}).Grant.Token, 1)
		must(t, s.rdb.HSet(ctx, s.keys.Record(), "token", "x").Err())
		equal(t, "a damaged token", d.ask(EnterTicket{Ticket: parsed(d.ticket(usual))}).Grant, nil)
	})
}

func TestAClientIsToldOnlyOfItsOwnGrantsAndOnceIfItHears(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, d := s.party("a"), s.deaf("d")
		hold, token := a.holds(usual)
		own, place := d.waits(usual)
		other, behind := d.waits(usual)
		equal(t, "while another holds", d.ask(EnterTicket{Ticket: parsed(other), Place: behind}).Grant, nil)
		last, _ := a.waits(usual)
		a.leaves(hold, token, Held)
		equal(t, "if it asks for that ticket", d.ask(EnterTicket{Ticket: parsed(own), Place: place}, EnterTicket{Ticket: parsed(other), Place: behind}).Grant, nil)
		d.leave(LeaveTicket{Ticket: parsed(other), Place: behind})
		d.leave(LeaveTicket{Ticket: parsed(own), Token: 1})
		a.granted(last)
		equal(t, "if it hears", a.ask(EnterTicket{Ticket: parsed(a.ticket(usual))}, EnterTicket{Ticket: parsed(a.ticket(usual))}).Grant, nil)
	})
}
