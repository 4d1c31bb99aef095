package explore

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
)

// mayPass reports whether the ticket's turn, once it is over, passes to its client's other ticket.
func (s *state) mayPass(t int8) bool {
	a, other := s.attempt(t), s.attempt(t^1)
	if !a.run || a.follows || other.phase != waiting || s.clients[clientOf(t)].closed || a.requests.InFlight > 0 {
		return false
	}
	h := a.hold
	h.Depth, h.RenewAt = 0, now.Add(time.Second) // renewals may go out at any time, but none is due
	return h.Passes(span(lease), rules.RunFor, now)
}

// running reports whether some hold may yet pass to another ticket, as far as the server has told.
func (s *state) running() bool {
	running := false
	for i := range s.clients {
		c := &s.clients[i]
		running = running || c.at[0].run || c.at[1].run
		for _, m := range c.inbox[:c.mail] {
			running = running || m.run
		}
	}
	for i := range s.flights {
		running = running || s.flights[i].rep.passing.run
	}
	return running
}

// passOn passes the turn on, if that is possible. No request is sent.
func (x *explorer) passOn(s *state, t int8) bool {
	if !s.mayPass(t) {
		return false
	}
	a, next := s.attempt(t), s.attempt(t^1)
	x.judgePass(s, t^1)
	if next.wait.Last.At == 0 {
		next.requests.Overtaken()
	}
	next.wait.Follows()
	a.hold.Depth = 0
	a.hold.Pass(now)
	a.hold.LeaseGiven(now)
	a.phase, a.run = passed, false
	next.phase, next.follows = held, true
	if x.programs[clientOf(t)].lingers {
		next.phase = given
	}
	return true
}

// judgePass: a turn overtakes no other client's ticket that waits and can be reached. A ticket that
// was passed over, and came back during the run, waits for its end.
func (x *explorer) judgePass(s *state, to int8) {
	t := &s.truth
	for i := range int8(tickets) {
		if clientOf(i) != clientOf(to) && !t.back[i] && (!t.inLine[to] || t.place[i] < t.place[to]) && x.due(s, &s.srv, &request{client: admin}, i) {
			x.broken(2, "the turn passed to %s, which overtook %s", ticketName(to), ticketName(i))
		}
	}
}

// release ends the turn of a ticket whose hold is to be given back.
func (x *explorer) release(s *state, t int8) {
	holder := s.holder(t)
	s.attempt(holder).hold.Release()
	x.leaves(s, holder, releasing)
	if holder != t {
		s.attempt(t).phase = followed
	}
}
