package explore

// apply makes a move.
func (x *explorer) apply(s *state, m move) { //nolint:funlen // a line or two for each move there is
	s.spend(m)
	switch m.what {
	case begins, together, beats, asks, renews, unlocks, again:
		x.send(s, x.request(s, m), m.mode)
	case forces:
		x.send(s, request{verb: force, client: admin, token: s.srv.token}, m.mode)
	case arrives:
		f := &s.flights[m.who]
		rep, lag := x.execute(s, &f.req), -f.sent
		if f.kind == zombie {
			s.haunts(&f.req)
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
	case cancels:
		if x.givesUp(s, m.who); s.attempt(m.who).gone {
			return
		}
		x.send(s, x.request(s, m), m.mode)
	case adopts:
		s.attempt(m.who).phase = held
	case closes:
		x.close(s, m.who)
	case ends:
		s.srv.heard[m.who] = false
	case tires:
		s.attempt(m.who).phase = finished
	case forges:
		c := &s.clients[m.who/2]
		c.inbox[c.mail] = message{verb: 'g', client: m.who / 2, ticket: m.who, token: fresh + int32(s.clock)*step, claim: claim, stamp: s.clock, forged: true}
		c.mail++
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
	case elapses:
		x.pass(s, m.by)
	}
}

// request is what the client sends for a move, once its own state says so.
func (x *explorer) request(s *state, m move) request {
	t := m.who
	if m.what == together || m.what == beats || m.what == asks {
		t = 2 * m.who
	}
	a, c := s.attempt(t), clientOf(t)
	r := request{client: c, n: 1}
	r.of[0] = asked{ticket: t, place: a.place, retire: (a.open || s.underway(t)) && !x.rules.neverRetire}
	switch m.what {
	case begins, together, beats, asks:
		return x.enters(s, c, m)
	case renews:
		r = request{verb: renew, client: c, ticket: t, token: a.token}
		if a.asks {
			r.verb = reassert
		}
	case unlocks, again, cancels:
		r.verb = leave
		if m.what == unlocks {
			x.leaves(s, t, releasing)
			if x.rules.trustInRelease {
				a.phase = held
			}
		}
		if a.phase == releasing || a.phase == held {
			r.of[0].place, r.token = 0, a.token
		}
	default:
	}
	return r
}

// enters is an enter for one attempt that begins, for both that do, or for all of the client's that wait.
func (x *explorer) enters(s *state, c int8, m move) request {
	cl := &s.clients[c]
	r := request{verb: enter, client: c, seen: cl.seen, knew: cl.seen}
	if x.programs[c].tries {
		r.verb = try
	}
	if x.rules.neverSeen {
		r.seen = 0
	}
	switch m.what {
	case begins:
		s.attempt(m.who).phase = waiting
	case together:
		cl.at[0].phase, cl.at[1].phase = waiting, waiting
	default:
	}
	for i := range int8(2) {
		t := 2*c + i
		if cl.at[i].phase != waiting || m.what == begins && t != m.who || (m.what == beats || m.what == asks) && !s.enters(t, &x.programs[c]) {
			continue
		}
		place := cl.at[i].place
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
	if r.n == 2 && m.what == asks {
		r.n, r.of[1], r.some = 1, asked{}, true
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
	case elapses:
		u.ticks--
		return
	case forces:
		u.force--
	case closes:
		u.closed--
	case tires:
		u.tired--
	case forges:
		n = &u.forged
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
	case swallowed:
		n = &u.swallowed
	case twice:
		n = &u.twice
	default:
	}
	if n != nil {
		*n--
		u.faults--
	}
}
