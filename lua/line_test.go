package lua

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// forgetLine makes the server lose the line, as a failover may do.
func (s *site) forgetLine() { must(s.t, s.rdb.Del(ctx, s.keys.Queue(), s.keys.Waiters()).Err()) }

func TestATicketThatReturnsStandsWhereItStood(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		var tickets []string
		var places []Place
		for range 5 {
			ticket, place := b.waits(usual)
			tickets, places = append(tickets, ticket), append(places, place)
			s.pass(0)
		}
		for i, where := range []string{"at the front", "second", "in the middle", "last but one", "at the end"} {
			b.leave(LeaveTicket{Ticket: parsed(tickets[i]), Place: places[i]})
			state, answer := b.enter(tickets[i], places[i])
			equal(t, where, state, TicketState{Status: Waiting, Place: places[i], Returned: true})
			equal(t, "waiting", answer.Waiting, 5)
			s.lined(tickets...)
		}
	})
}

func TestTheLineComesBackInOrderWhateverTheOrderOfReturn(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a := s.party("a")
		a.holds(usual)
		parties := []*party{s.party("b"), s.party("c"), s.party("d")}
		rng := rand.New(rand.NewPCG(1, 2)) // the same in every run
		for range 12 {
			type waiter struct {
				p      *party
				ticket string
				place  Place
			}
			var all []waiter
			for range 2 + rng.IntN(12) {
				p := parties[rng.IntN(len(parties))]
				ticket, place := p.waits(usual)
				all = append(all, waiter{p, ticket, place})
			}
			s.forgetLine()
			s.pass(0)
			newcomer, last := a.waits(usual) // before any client that knows the line
			shuffled := slices.Clone(all)
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			var known []waiter
			for _, w := range shuffled {
				w.p.queues(w.ticket, w.place)
				if rng.IntN(3) == 0 {
					w.p.queues(w.ticket, w.place) // changes nothing
				}
				known = append(known, w)
				slices.SortFunc(known, func(v, w waiter) int { return int(v.place - w.place) })
				var want []string
				for _, w := range known {
					want = append(want, w.ticket)
				}
				s.lined(append(want, newcomer)...)
			}
			a.leave(LeaveTicket{Ticket: parsed(newcomer), Place: last})
			s.forgetLine()
		}
	})
}

func TestNewcomersAndATicketThatReturnsBetweenThemStandInTheOrderOfTheirPlaces(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		first, place := b.waits(usual)
		second, _ := b.waits(usual)
		b.leave(LeaveTicket{Ticket: parsed(first), Place: place})
		one, two := b.ticket(usual), b.ticket(usual)
		answer := b.ask(
			EnterTicket{Ticket: parsed(one)}, EnterTicket{Ticket: parsed(first), Place: place}, EnterTicket{Ticket: parsed(two)},
		)
		s.lined(first, second, one, two)
		equal(t, "places", answer.Tickets[0].Place < answer.Tickets[2].Place, true)
		equal(t, "waiting", answer.Waiting, 4)
		equal(t, "returned", answer.Tickets[1], TicketState{Status: Waiting, Place: place, Returned: true})
	})
}

func TestAnOverdueTicketThatComesWithANewcomerIsNotSweptForIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		ticket, place := b.waits(usual)
		s.age(ticket)
		answer := b.ask(
			EnterTicket{Ticket: parsed(ticket), Place: place},
			EnterTicket{Ticket: parsed(b.ticket(usual)), MaxWaiters: 1},
		)
		equal(t, "newcomer", answer.Tickets[1].Status, Full)
		s.lined(ticket)
	})
}

func TestManyTicketsReturnInOneRequest(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		var tickets []string
		var ofB, ofC []EnterTicket
		for range 10 { // in turns
			one, at := b.waits(usual)
			two, after := c.waits(usual)
			tickets = append(tickets, one, two)
			ofB = append(ofB, EnterTicket{Ticket: parsed(one), Place: at})
			ofC = append(ofC, EnterTicket{Ticket: parsed(two), Place: after})
		}
		s.forgetLine()
		s.pass(0)
		newcomer := b.ticket(usual)
		ofB = append(ofB, EnterTicket{Ticket: parsed(newcomer)})
		c.ask(ofC[5:]...)
		equal(t, "position of the newcomer", b.ask(ofB...).Tickets[10].Position, 16)
		c.ask(ofC...)
		s.lined(append(tickets, newcomer)...)
	})
}

func TestAnyPlaceInALongLineIsFound(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		tickets := b.queueMany(1101)
		s.untidy = true // a look at so many takes its time
		for _, i := range []int{0, 1, 499, 500, 501, 550, 999, 1000, 1099, 1100} {
			place := b.queues(tickets[i]) // without its place: as if the answer had been lost
			b.leave(LeaveTicket{Ticket: parsed(tickets[i]), Place: place})
			b.queues(tickets[i], place)
			equal(t, "place", b.queues(tickets[i]), place)
		}
		s.lined(tickets...)
	})
}

func TestATicketWhoseAnswerWasLostIsToldItsPlace(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b := s.party("a"), s.party("b")
		a.holds(usual)
		one, place := b.waits(usual)
		two, after := b.waits(usual)
		s.pass(time.Millisecond)
		s.age(one, two)
		answer := b.ask(EnterTicket{Ticket: parsed(one)}, EnterTicket{Ticket: parsed(two)})
		equal(t, "first", answer.Tickets[0], TicketState{Status: Waiting, Place: place})
		equal(t, "second", answer.Tickets[1], TicketState{Status: Waiting, Place: after})
		deadline, _ := s.score(two)
		equal(t, "deadline", deadline, int64(answer.Now)/1000+15_000)
		s.lined(one, two)
	})
}

// After the server has lost the line twice, two tickets may claim one place. The server keeps both.
func TestATicketThatReturnsToATakenPlaceStandsBehindIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a, b, c := s.party("a"), s.party("b"), s.party("c")
		a.holds(usual)
		one, place := b.waits(usual)
		two, _ := b.waits(usual)
		three := c.ticket(usual)
		c.queues(three, place)
		s.lined(one, three, two)
		b.leaves(two, 0, Waited)
		four := c.ticket(usual)
		c.queues(four, place) // also if the other stands last
		s.lined(one, three, four)
	})
}

// No waiter stays long enough to send a heartbeat.
func TestALineThatAllPassThroughQuicklyLivesOn(t *testing.T) {
	s := onMiniredis(t)
	a := s.party("a")
	hold, token := a.holds(usual)
	next, _ := a.waits(usual)
	for range 60 {
		s.pass(time.Second)
		last, _ := a.waits(usual)
		s.lined(next, last)
		given := a.leaves(hold, token, Held).Grant
		equal(t, "granted", given.Ticket, parsed(next))
		hold, token, next = next, given.Token, last
	}
}
