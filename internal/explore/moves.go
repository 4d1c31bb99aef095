package explore

import "slices"

// what a move is.
type what int8

const (
	begins    what = iota // a client's attempt sends its first enter or its try
	beats                 // a client's waiters enter
	renews                // a holder renews, or reasserts if it was told that the record does not have it
	unlocks               // a holder releases
	cancels               // a waiter gives up
	again                 // an unanswered leave is sent again
	farewells             // the lease of a lost hold is over; it leaves for certain
	forces                // an administrator ends the present ownership
	arrives               // a request is executed, late or after a delay
	returns               // an answer arrives
	times                 // a client no longer waits for an answer
	hears                 // a client takes in a message
	misses                // a message is lost
	doubles               // a message will arrive once more
	deafens               // a client's subscription is lost
	listens               // and comes back
	crashes               // a process is killed
	stops                 // a process stands still for good, its connections open
	flushes               // all data is lost
	passes                // time goes by
)

// move is one step from a state to another.
type move struct {
	what what
	who  int8 // client, ticket or flight
	mode mode
	by   ms
}

// moves are all that can happen next.
func (x *explorer) moves(s *state, to []move) []move {
	u := &s.budget
	for c := range int8(clients) {
		if s.clients[c].alive {
			to = x.clientMoves(s, c, to)
		}
	}
	if k := &s.srv; u.force > 0 && k.held() && k.owner != placeholder {
		to = append(to, move{what: forces})
		if u.faults > 0 && u.late > 0 && s.room() {
			to = append(to, move{what: forces, mode: late})
		}
		if u.faults > 0 && u.twice > 0 && s.room() {
			to = append(to, move{what: forces, mode: twice})
		}
	}
	for i := range s.flights {
		switch f := &s.flights[i]; f.kind {
		case pending:
			to = append(to, move{what: arrives, who: int8(i)})
			if u.faults > 0 && u.late > 0 {
				to = append(to, move{what: times, who: int8(i)})
			}
		case zombie:
			to = append(to, move{what: arrives, who: int8(i)})
		case answer:
			to = append(to, move{what: returns, who: int8(i)})
			if u.faults > 0 && u.lose > 0 {
				to = append(to, move{what: times, who: int8(i)})
			}
		default:
		}
	}
	if u.faults > 0 && u.flush > 0 {
		to = append(to, move{what: flushes})
	}
	if u.ticks > 0 {
		for _, t := range s.instants() {
			to = append(to, move{what: passes, by: t})
		}
	}
	return to
}

func (x *explorer) clientMoves(s *state, c int8, to []move) []move {
	cl, u, p := &s.clients[c], &s.budget, &x.programs[c]
	add := func(w what, who int8) {
		to = append(to, move{what: w, who: who})
		if u.faults == 0 {
			return
		}
		for _, m := range []struct {
			mode
			n int8
		}{{delayed, u.delay}, {unheard, u.lose}, {late, u.late}, {twice, u.twice}} {
			if m.n > 0 && (m.mode == unheard || s.room()) {
				to = append(to, move{what: w, who: who, mode: m.mode})
			}
		}
	}
	beating := false
	for i := range int8(2) {
		t := 2*c + i
		switch a := &cl.at[i]; a.phase {
		case idle:
			if i < p.tickets && (i == 0 || p.parallel || cl.at[0].phase == finished) {
				add(begins, t)
			}
		case waiting:
			beating = beating || s.enters(t, p)
			if p.cancels {
				add(cancels, t)
			}
		case held:
			if !s.underway(t) || a.asks {
				add(renews, t)
			}
			add(unlocks, t)
		case releasing, leaving:
			if !s.leaves(t) {
				add(again, t)
			}
		case lost:
			if a.expires <= 0 {
				to = append(to, move{what: farewells, who: t})
			}
		default:
		}
	}
	if beating {
		add(beats, c)
	}
	if cl.mail > 0 {
		to = append(to, move{what: hears, who: c})
		if u.faults > 0 && u.dropped > 0 {
			to = append(to, move{what: misses, who: c})
		}
		if u.faults > 0 && u.doubled > 0 && int(cl.mail) < len(cl.inbox) {
			to = append(to, move{what: doubles, who: c})
		}
	}
	if !s.srv.heard[c] {
		to = append(to, move{what: listens, who: c})
	} else if u.faults > 0 && u.deaf > 0 {
		to = append(to, move{what: deafens, who: c})
	}
	if u.faults > 0 && u.crash > 0 {
		to = append(to, move{what: crashes, who: c})
	}
	if u.faults > 0 && u.stop > 0 {
		to = append(to, move{what: stops, who: c})
	}
	return to
}

// enters reports whether a waiting attempt takes part in its client's heartbeats: its first request has come back, or failed.
func (s *state) enters(t int8, p *program) bool {
	a := s.attempt(t)
	return !s.underway(t) || !p.tries && (a.sighted || a.open)
}

// leaves reports whether a leave of the ticket is on its way and its client waits for the answer.
func (s *state) leaves(t int8) bool {
	for i := range s.flights {
		if f := &s.flights[i]; (f.kind == pending || f.kind == answer) && f.req.verb == leave && f.req.about(t) {
			return true
		}
	}
	return false
}

// instants are the times to come at which something ends: of a key the millisecond in which it is still there, and the one after.
func (s *state) instants() []ms {
	var all []ms
	add := func(times ...ms) {
		for _, t := range times {
			if t > 0 && t < 30000 && !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	k := &s.srv
	if k.ends != absent {
		add(k.ends, k.ends+1)
	}
	for i := range int8(tickets) {
		add(k.holds[i], k.waits[i])
		if a := s.attempt(i); a.phase == held {
			add(a.trusted)
		} else if a.phase == lost || a.phase == releasing {
			add(a.expires)
		}
	}
	for i := range clients {
		add(k.blind[i])
	}
	add(k.gather)
	slices.Sort(all)
	return all
}

// apply makes a move.
func (x *explorer) apply(s *state, m move) {
	s.spend(m)
	switch m.what {
	case begins, beats, renews, unlocks, cancels, again, farewells:
		x.send(s, x.request(s, m), m.mode)
	case forces:
		x.send(s, request{verb: force, client: admin, token: s.srv.token}, m.mode)
	case arrives:
		f := &s.flights[m.who]
		rep, lag := x.execute(s, &f.req), -f.sent
		if f.kind == zombie {
			*f = flight{}
		} else {
			f.kind, f.rep, f.lag, f.stamp = answer, rep, lag, s.clock
		}
	case returns:
		f := s.flights[m.who]
		s.flights[m.who] = flight{}
		x.answered(s, &f)
	case times:
		f := s.flights[m.who]
		s.flights[m.who] = flight{}
		x.unanswered(s, &f)
		if f.kind == pending {
			f.kind = zombie
			s.flights[m.who] = f
		}
	case hears:
		x.hear(s, m.who)
	case misses:
		c := &s.clients[m.who]
		copy(c.inbox[:], c.inbox[1:])
		c.mail--
	case doubles:
		c := &s.clients[m.who]
		c.inbox[c.mail] = c.inbox[0]
		c.mail++
	case deafens:
		s.srv.heard[m.who], s.clients[m.who].mail = false, 0
	case listens:
		s.listen(m.who)
	case crashes, stops:
		s.die(m.who, m.what == stops)
	case flushes:
		s.lose()
	case passes:
		x.pass(s, m.by)
	}
}

// request is what the client sends for a move, once its own state says so.
func (x *explorer) request(s *state, m move) request {
	t := m.who
	if m.what == beats {
		t = 2 * m.who
	}
	a, c := s.attempt(t), clientOf(t)
	r := request{client: c, n: 1}
	r.of[0] = asked{ticket: t, place: a.place, retire: (a.open || s.underway(t)) && !x.rules.neverRetire}
	switch m.what {
	case begins, beats:
		return x.enters(s, c, m)
	case renews:
		r = request{verb: renew, client: c, ticket: t, token: a.token}
		if a.asks {
			r.verb = reassert
		}
	case unlocks, again, farewells, cancels:
		r.verb = leave
		switch {
		case m.what == unlocks:
			a.phase = releasing
			if x.rules.trustInRelease {
				a.phase = held
			}
		case a.phase == waiting:
			a.phase = leaving
		case a.phase == lost:
			a.phase = releasing // of which nobody asks for the outcome
			a.unanswered = true
		}
		if a.phase == releasing || a.phase == held {
			r.of[0].place, r.token = 0, a.token
		}
	default:
	}
	return r
}

// enters is an enter for one attempt that begins, or for all of the client's that wait.
func (x *explorer) enters(s *state, c int8, m move) request {
	cl := &s.clients[c]
	r := request{verb: enter, client: c, seen: cl.seen, knew: cl.seen}
	if x.programs[c].tries {
		r.verb = try
	}
	if x.rules.neverSeen {
		r.seen = 0
	}
	if m.what == begins {
		s.attempt(m.who).phase = waiting
	}
	for i := range int8(2) {
		t := 2*c + i
		if cl.at[i].phase != waiting || m.what == begins && t != m.who || m.what == beats && !s.enters(t, &x.programs[c]) {
			continue
		}
		place := cl.at[i].place
		if x.rules.forgetPlace {
			place = 0
		}
		if place == 0 {
			cl.at[i].sent = min(2, cl.at[i].sent+1)
		}
		r.of[r.n] = asked{ticket: t, place: place, tell: place != 0 && cl.at[i].sent > 1}
		r.n++
	}
	// In the order of their places; who has none yet is last.
	if r.n == 2 && r.of[1].place != 0 && (r.of[0].place == 0 || r.of[1].place < r.of[0].place) {
		r.of[0], r.of[1] = r.of[1], r.of[0]
	}
	return r
}

func (s *state) listen(c int8) {
	s.srv.heard[c] = true
	for i := range s.clients[c].at {
		s.clients[c].at[i].session = false
	}
	for i := range s.flights {
		if s.flights[i].req.client == c {
			s.flights[i].session = false
		}
	}
}

// die ends a process. One that only stands still keeps its connections.
func (s *state) die(c int8, stopped bool) {
	s.clients[c] = client{}
	s.srv.heard[c] = s.srv.heard[c] && stopped
	for i := range s.flights {
		switch f := &s.flights[i]; {
		case f.req.client != c || f.kind == landed:
		case f.kind == answer:
			*f = flight{}
		default:
			f.kind = zombie
		}
	}
}

func (s *state) spend(m move) {
	u := &s.budget
	n := (*int8)(nil)
	switch m.what {
	case passes:
		u.ticks--
		return
	case forces:
		u.force--
	case crashes:
		n = &u.crash
	case stops:
		n = &u.stop
	case deafens:
		n = &u.deaf
	case misses:
		n = &u.dropped
	case doubles:
		n = &u.doubled
	case flushes:
		n = &u.flush
	case times:
		n = &u.late
		if s.flights[m.who].kind == answer {
			n = &u.lose
		}
	default:
	}
	switch m.mode {
	case delayed:
		n = &u.delay
	case unheard:
		n = &u.lose
	case late:
		n = &u.late
	case twice:
		n = &u.twice
	default:
	}
	if n != nil {
		*n--
		u.faults--
	}
}
