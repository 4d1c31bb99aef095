package lua

import (
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
		answer := d.send(Enter{Tickets: []EnterTicket{{Ticket: parsed(d.ticket(usual))}}})
		if g := answer.Grant; g == nil || g.Ticket != parsed(forgotten) || g.Token <= token || g.Remaining <= 0 || g.Remaining > Claim {
			t.Fatalf("%+v", g)
		}
		equal(t, "status", answer.Tickets[0].Status, Waiting)
		d.leaves(forgotten, answer.Grant.Token, Held)
	})
}
