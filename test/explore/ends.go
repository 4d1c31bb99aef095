package explore

import (
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// patience is how long a leave is sent again. Requests that are later than a claim are not covered.
func patience() ms { return ms((rules.Patience(span(lease)) - rules.Late).Milliseconds()) + claim }

// leaves ends an attempt that the server must be told of. From now on the client sends its leave
// again until the server answers.
func (x *explorer) leaves(s *state, t int8, as phase) {
	a := s.attempt(t)
	a.phase, a.until = as, patience()
}

// givesUp ends a call that waits, or that was granted and has no Lease yet: the call was cancelled,
// its caller panicked, or its client was closed.
func (x *explorer) givesUp(s *state, t int8) {
	a := s.attempt(t)
	step := a.wait.GivesUp(a.requests.Open())
	a.gone = step.Do == rules.Nothing
	x.carryOut(s, t, step, 0)
}

// close closes a client. Waiting calls leave, and the contexts of Leases end. A hold stays until it
// is unlocked or its lease is over. The client renews nothing and repeats no request any more. A
// call that was granted and has no Lease yet learns of the close when it is about to have one.
func (x *explorer) close(s *state, c int8) {
	cl := &s.clients[c]
	cl.closed = true
	for i := range cl.at {
		switch a := &cl.at[i]; a.phase {
		case idle:
			a.phase = finished
		case waiting:
			x.givesUp(s, 2*c+int8(i))
		case held:
			a.phase = shut
		default: // also if its turn has passed: the ticket has no Lease
		}
	}
}

// unclosed reports whether a closed client still has something to say or to hear. Until then the
// client keeps its subscription.
func (s *state) unclosed(c int8) bool {
	for i := range int8(2) {
		switch t := 2*c + i; s.attempt(t).phase {
		case leaving, releasing:
			return true
		default:
			if s.mentioned(t) {
				return true
			}
		}
	}
	return false
}

// left handles the answer to a leave.
func (x *explorer) left(s *state, f *flight, t int8, got status) {
	a := s.attempt(t)
	if a.phase == releasing && a.hold.State == rules.Releasing {
		unsure := a.hold.Unsure
		outcome, _ := a.hold.Released(left[got], nil, f.trusted, now, s.clients[clientOf(t)].closed)
		if outcome == rules.Clean && !s.truth.clean[t] && (!unsure || !s.truth.flushed) {
			x.broken(6, "the release of %s is reported as clean, though it held nothing", ticketName(t))
		}
	}
	if a.phase == releasing && f.req.token != 0 || a.phase == leaving || a.phase == followed {
		a.phase = finished
		a.wait.Left()
	}
}

// lose ends the trust in a hold, by the server's word or because its time is over.
func (x *explorer) lose(s *state, t int8, why rules.Why) {
	a := s.attempt(t)
	open := a.requests.Open()
	leave := a.hold.Lose(why, now, open)
	if o := s.attempt(t ^ 1); o.follows {
		o.phase, leave = followed, true
	}
	switch {
	case leave:
		x.leaves(s, t, releasing)
	case a.hold.State != rules.Held:
		a.phase = finished
		a.wait.Left()
		s.truth.silent[t] = !open && why == rules.Expired
	}
}

// part returns a ticket's part of a leave.
func (a *attempt) part(t int8) (asked, int32) {
	var l lua.LeaveTicket
	switch {
	case a.unknown:
		l = rules.Unknown(lua.Ticket{})
	case a.phase == releasing || a.phase == shut || a.holds():
		l = a.hold.Leave(lua.Ticket{}, int64(a.token), a.requests.Open())
	default:
		l = a.wait.Leave(lua.Ticket{}, a.requests.Open())
	}
	return asked{ticket: t, place: int32(l.Place), retire: l.Retire}, int32(l.Token)
}

// pass lets time go by.
func (x *explorer) pass(s *state, d ms) {
	s.shift(d)
	for t := range int8(tickets) {
		a, closed := s.attempt(t), s.clients[clientOf(t)].closed
		switch {
		case !s.holdOf(t).TrustOver(now) || a.phase == given && closed:
		case a.holds() && !closed:
			x.lose(s, t, rules.Expired)
		case a.phase == shut:
			s.truth.silent[t], s.truth.silent[s.holder(t)] = true, true
			x.ends(s, s.holder(t))
		}
	}
}

// ends ends an attempt of which nobody tells the server any more, and the attempt that followed it.
func (x *explorer) ends(s *state, t int8) {
	for _, a := range [...]*attempt{s.attempt(t), s.attempt(t ^ 1)} {
		if a == s.attempt(t) || a.follows {
			a.phase = finished
			a.wait.Left()
		}
	}
}
