package lua

import (
	"testing"
	"time"
)

// passedOver is a lock held by c. The first waiter, of b, was passed over because the server did
// not see b's subscription for a moment. Another ticket of b is in line, and behind it one of d.
type passedOver struct {
	*site
	b, c, d       *party
	first, second string
	place, after  Place
	holder        string
	token         int64
	last          string
}

func eachPassedOver(t *testing.T, test func(t *testing.T, o passedOver)) {
	t.Helper()
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		o := passedOver{site: s, b: s.party("b"), c: s.party("c"), d: s.party("d")}
		hold, token := a.holds(usual)
		o.first, o.place = o.b.waits(usual)
		o.holder, _ = o.c.waits(usual)
		o.second, o.after = o.b.waits(usual)
		o.last, _ = o.d.waits(usual)
		o.b.die()
		a.leaves(hold, token, Held)
		o.token = o.c.granted(o.holder)
		s.lined(o.second, o.last)
		o.b.listen()
		test(t, o)
	})
}

// hinted checks that the server sent b a hint: b may be back, and not know that it was passed over.
func (o passedOver) hinted() {
	o.t.Helper()
	m := o.b.hears()
	equal(o.t, "hint", m, Message{News: Recalls, Ticket: m.Ticket, Record: o.keys.Record()})
	equal(o.t, "to", m.Ticket.String(), o.second)
	o.b.hearsNothing()
}

func TestNoLaterTicketOfAClientIsGrantedBeforeTheOneThatWasPassedOver(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		o.c.leaves(o.holder, o.token, Held)
		next := o.d.granted(o.last)
		o.hinted()
		o.b.ask(EnterTicket{Ticket: parsed(o.first), Place: o.place}, EnterTicket{Ticket: parsed(o.second), Place: o.after})
		o.lined(o.first, o.second)
		o.d.leaves(o.last, next, Held)
		o.b.granted(o.first)
	})
}

func TestAClientThatWasPassedOverIsGrantedAgainOnceItHasEntered(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		o.b.queues(o.first, o.place)
		o.lined(o.first, o.second, o.last)
		if _, marked := o.score("?b"); marked {
			t.Fatal("still marked as passed over")
		}
		o.c.leaves(o.holder, o.token, Held)
		o.b.granted(o.first)
	})
}

func TestANewcomerDoesNotSpeakForThoseOfItsClientWhoWerePassedOver(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		newcomer := o.b.ticket(usual)
		_, answer := o.b.enter(newcomer)
		equal(t, "told to bring the others back", answer.More, true)
		o.c.leaves(o.holder, o.token, Held)
		o.d.granted(o.last)
		o.hinted()
		answer = o.b.ask(EnterTicket{Ticket: parsed(o.first), Place: o.place}, EnterTicket{Ticket: parsed(o.second), Place: o.after})
		equal(t, "told again", answer.More, false)
		o.lined(o.first, o.second, newcomer)
	})
}

// This holds for a request of the client itself, too.
func TestNoRequestOfAClientGrantsItsLaterTicketBeforeTheOneThatWasPassedOver(t *testing.T) {
	for what, ask := range map[string]func(b *party){
		"a newcomer":      func(b *party) { b.ask(EnterTicket{Ticket: parsed(b.ticket(usual))}) },
		"a try":           func(b *party) { b.try(b.ticket(usual)) },
		"an empty leave":  func(b *party) { b.leave() },
		"another's leave": func(b *party) { b.leave(LeaveTicket{Ticket: parsed(b.ticket(usual))}) },
	} {
		t.Run(what, func(t *testing.T) {
			eachPassedOver(t, func(t *testing.T, o passedOver) {
				o.endRecord()
				ask(o.b)
				equal(t, "the later one is granted", o.field(o.second) != "", false)
			})
		})
	}
}

func TestANewcomerDoesNotTakeAFreeLockBeforeThoseOfItsClientWhoWerePassedOver(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		o.c.leaves(o.holder, o.token, Held)
		o.d.leaves(o.last, o.d.granted(o.last), Held)
		o.pass(time.Millisecond)
		newcomer := o.b.ticket(usual)
		state, answer := o.b.enter(newcomer)
		equal(t, "status", state.Status, Waiting)
		equal(t, "told to bring the others back", answer.More, true)
		equal(t, "how long nobody can have it", answer.Remaining, 0)
		o.b.ask(EnterTicket{Ticket: parsed(o.first), Place: o.place}, EnterTicket{Ticket: parsed(o.second), Place: o.after}, EnterTicket{Ticket: parsed(newcomer), Place: state.Place})
		equal(t, "the first one is granted", o.field(o.first) != "", true)
		o.lined(o.second, newcomer)
	})
}

func TestATryDoesNotBringTheTicketsBackThatWerePassedOver(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		state, _ := o.b.try(o.b.ticket(usual))
		equal(t, "status", state.Status, Taken)
		o.c.leaves(o.holder, o.token, Held)
		o.d.granted(o.last)
		o.lined()
	})
}

func TestThatAClientWasPassedOverIsRememberedForItsLiveness(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		end, marked := o.score("?b")
		if now := int64(o.now()) / 1000; !marked || -end > now+15_000 || -end < now+10_000 {
			t.Fatalf("remembered until %d, now is %d", -end, now)
		}
		must(t, o.rdb.ZIncrBy(ctx, o.keys.Waiters(), float64(15*time.Second/time.Millisecond), "?b").Err()) // as if the time were over
		o.c.leaves(o.holder, o.token, Held)
		o.b.granted(o.second)
		o.lined(o.last)
	})
}

func TestNobodyIsMarkedAsPassedOverWhenTheLineIsOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		hold, token := a.holds(usual)
		b.waits(usual)
		b.die()
		a.leaves(hold, token, Held)
		equal(t, "no marks", s.gone(s.keys.Waiters()), true)
	})
}

func TestTheMarkOfAClientThatWasPassedOverEndsThoughTheDeadlinesWereDeleted(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		b.waits(usual)
		next, _ := c.waits(usual)
		last, _ := c.waits(usual)
		b.die()
		s.untidy = true
		must(t, s.rdb.Del(ctx, s.keys.Waiters()).Err())
		a.leaves(hold, token, Held)
		c.granted(next)
		s.lined(last)
		if end := s.ends(s.keys.Waiters()); end < 0 {
			t.Fatalf("the mark ends at %d", end)
		}
	})
}

func TestSomeOfSeveralDoNotSpeakForThoseThatWerePassedOver(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		answer := o.b.send(Enter{Some: true, Tickets: []EnterTicket{{Ticket: parsed(o.second), Place: o.after}}})
		equal(t, "told to bring the others back", answer.More, true)
		_, marked := o.score("?b")
		equal(t, "marked as passed over", marked, true)
	})
}

func TestWhoHasNoneToBringBackIsNotToldTo(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		_, answer := o.b.try(o.b.ticket(usual))
		equal(t, "a try, which speaks for nobody", answer.More, false)
		answer = o.d.ask(EnterTicket{Ticket: parsed(o.d.ticket(usual))}, EnterTicket{Ticket: parsed(o.d.ticket(usual))})
		equal(t, "newcomers of another client", answer.More, false)
	})
}

func TestWhoComesBackToAFreeLockWithoutALineHasItForItsLease(t *testing.T) {
	eachPassedOver(t, func(t *testing.T, o passedOver) {
		o.b.leaves(o.second, 0, Waited)
		o.d.leaves(o.last, 0, Waited)
		o.c.leaves(o.holder, o.token, Held)
		state, _ := o.b.enter(o.first, o.place)
		equal(t, "status", state.Status, Granted)
		equal(t, "remaining", state.Grant.Remaining, usual)
	})
}

func TestAClientWhoseTicketIsOverdueIsNotPassedOver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		hold, token := a.holds(usual)
		overdue, _ := b.waits(usual)
		next, _ := c.waits(usual)
		c.waits(usual)
		b.die()
		s.age(overdue)
		a.leaves(hold, token, Held)
		c.granted(next)
		_, marked := s.score("?b")
		equal(t, "marked", marked, false)
	})
}
