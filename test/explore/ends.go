package explore

// patience is for how long a leave is sent again: a ticket may hold for a lease, and be in line,
// and then have a claim.
func (x *explorer) patience() ms {
	if x.rules.impatient {
		return claim
	}
	return max(lease, liveness) + claim
}

// leaves ends an attempt that the server has to be told of: from now on its leave is sent again
// until it is answered.
func (x *explorer) leaves(s *state, t int8, as phase) {
	a := s.attempt(t)
	a.phase, a.until = as, x.patience()
}

// dismiss ends an attempt that was not granted.
func (x *explorer) dismiss(s *state, t int8) {
	a := s.attempt(t)
	x.leaves(s, t, leaving)
	if !a.sighted && !a.open && !s.underway(t) {
		a.phase = finished // nothing of it ever reached the server
	}
}

// givesUp ends the call of a ticket that waits, or was granted and has no Lease yet: it was
// cancelled, its caller panicked, or its client was closed.
func (x *explorer) givesUp(s *state, t int8) {
	a := s.attempt(t)
	switch {
	case a.phase == waiting && x.rules.vanish, a.phase == given && x.rules.keepInWindow:
		a.gone = true
	case a.phase == given:
		x.leaves(s, t, releasing)
	default:
		x.leaves(s, t, leaving)
	}
}

// close ends a client: calls that wait leave, the contexts of Leases end, and what is held stays
// so until it is unlocked or its lease is over. Nothing is renewed any more, and nothing said
// twice. A call that was granted and has no Lease yet learns of it when it is about to have one.
func (x *explorer) close(s *state, c int8) {
	cl := &s.clients[c]
	cl.closed = true
	for i := range cl.at {
		switch a := &cl.at[i]; a.phase {
		case idle:
			a.phase = finished
		case waiting:
			if x.leaves(s, 2*c+int8(i), leaving); x.rules.closeInLine {
				a.phase = finished
			}
		case held:
			a.phase = shut
		default:
		}
	}
}

// unclosed reports whether a closed client still has something to say or to hear: until then it
// keeps its subscription.
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

// holds takes a grant into the watchdog's care.
func (x *explorer) holds(s *state, t int8, token int32) {
	a := s.attempt(t)
	a.phase, a.token = held, token
	if x.programs[clientOf(t)].lingers {
		a.phase = given
	}
}

// left takes in the answer to a leave.
func (x *explorer) left(s *state, f *flight, t int8, got status) {
	a := s.attempt(t)
	if a.phase == releasing {
		clean := got == heldBy || a.unanswered || x.rules.alwaysClean
		if clean && !a.unanswered && !s.truth.clean[t] {
			x.broken(6, "the release of %s is reported as clean, though it held nothing", ticketName(t))
		}
	}
	if a.phase == releasing && f.req.token != 0 || a.phase == leaving || a.phase == held && x.rules.trustInRelease {
		a.phase = finished
	}
}

// toldLater takes in what an answer says of a ticket whose wait is over.
func (x *explorer) toldLater(s *state, t int8, got status) {
	if s.attempt(t).phase == finished && (got == waits || got == granted) && !x.rules.ignoreLater {
		s.truth.silent[t] = false
		x.leaves(s, t, leaving)
	}
}

// lose ends the trust in a hold: by the server's word, or because its time is over. It is left if
// a request of it is open, which could prolong what nobody holds; and at the server's word,
// whatever is known of it: a heartbeat that came after a force has put it in line again, or has
// even taken the lock. Else what the server has of it ends by itself.
func (x *explorer) lose(s *state, t int8, word bool) {
	a := s.attempt(t)
	open := a.open || s.underway(t)
	if open && !x.rules.forgetOpen || word && !x.rules.forgetLost {
		x.leaves(s, t, releasing)
		a.unanswered = true // nobody asks for the outcome
		return
	}
	a.phase = finished
	s.truth.silent[t] = !open && !word
}

// unwanted gives back a grant to a ticket that the client does not know any more.
func (x *explorer) unwanted(s *state, t int8, token int32) {
	x.send(s, request{verb: leave, client: clientOf(t), n: 1, of: [2]asked{{ticket: t, retire: true}}, token: token}, plainly)
}

// pass lets time go by.
func (x *explorer) pass(s *state, d ms) {
	s.shift(d)
	for t := range int8(tickets) {
		a, closed := s.attempt(t), s.clients[clientOf(t)].closed
		switch {
		case a.trusted > 0 || a.phase == given && closed:
		case a.holds() && !closed:
			x.lose(s, t, false)
		case a.phase == shut:
			a.phase, s.truth.silent[t] = finished, true
		}
	}
}
