package explore

import "github.com/fairlock/locks/internal/rules"

// apply makes a move.
func (x *explorer) apply(s *state, m move) { //nolint:funlen // a line or two for each move there is
	s.spend(m)
	switch m.what {
	case begins, together, beats, asks, renews, again:
		x.send(s, x.request(s, m), m.mode)
	case unlocks:
		x.release(s, m.who)
		x.send(s, x.request(s, m), m.mode)
	case goesOn:
		x.passOn(s, m.who)
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
		x.givesUp(s, m.who)
		if p := s.attempt(s.holder(m.who)).phase; p == leaving || p == releasing {
			x.send(s, x.request(s, m), m.mode)
		}
	case adopts:
		s.attempt(m.who).phase = held
	case closes:
		x.close(s, m.who)
	case ends:
		s.srv.heard[m.who] = false
	case tires:
		x.ends(s, m.who)
	case forges:
		c := &s.clients[m.who/2]
		c.inbox[c.mail] = message{
			verb: 'g', client: m.who / 2, ticket: m.who, token: fresh + int32(s.clock)*step,
			claim: claim, stamp: s.clock, forged: true,
		}
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

// request returns what the client sends for a move, after its own state has changed accordingly.
func (x *explorer) request(s *state, m move) request {
	t := m.who
	if m.what == together || m.what == beats || m.what == asks {
		t = 2 * m.who
	}
	a, c := s.attempt(t), clientOf(t)
	r := request{client: c, n: 1}
	switch m.what {
	case begins, together, beats, asks:
		return x.enters(s, c, m)
	case renews:
		r = request{verb: renew, client: c, ticket: t, token: a.token}
		if a.asks {
			r.verb = reassert
		}
		a.hold.RenewAt = now // it is due
		a.hold.StartRenewal(now)
	case unlocks, again, cancels:
		r.verb = leave
		t = s.holder(t)
		r.of[0], r.token = s.attempt(t).part(t)
		if o := s.attempt(t ^ 1); o.phase == followed {
			r.of[1], r.n = asked{ticket: t ^ 1, place: int32(o.wait.Place), retire: o.requests.Open()}, 2
		}
	default:
	}
	return r
}

// enters returns the enter for a move. The enter is for one beginning attempt, for two beginning
// together, or for all the client's waiting attempts.
func (x *explorer) enters(s *state, c int8, m move) request {
	cl := &s.clients[c]
	r := request{verb: enter, client: c, seen: cl.seen, knew: cl.knew}
	if x.programs[c].tries {
		r.verb = try
	}
	switch m.what {
	case begins:
		x.begin(s.attempt(m.who), c)
	case together:
		x.begin(&cl.at[0], c)
		x.begin(&cl.at[1], c)
	default:
	}
	for i := range int8(2) {
		t := 2*c + i
		if cl.at[i].phase != waiting || m.what == begins && t != m.who || (m.what == beats || m.what == asks) && !s.enters(t, &x.programs[c]) {
			continue
		}
		place, _, mend := cl.at[i].wait.Enter()
		r.of[r.n] = asked{ticket: t, place: int32(place), tell: mend}
		r.n++
	}
	// The script wants the tickets in the order of their places. A ticket without a place is last.
	if r.n == 2 && r.of[1].place != 0 && (r.of[0].place == 0 || r.of[1].place < r.of[0].place) {
		r.of[0], r.of[1] = r.of[1], r.of[0]
	}
	if r.n == 2 && m.what == asks {
		r.n, r.of[1], r.some = 1, asked{}, true
	}
	return r
}

// begin begins a client's attempt.
func (x *explorer) begin(a *attempt, c int8) {
	a.phase = waiting
	a.wait = rules.Waiter{Lease: span(lease), Try: x.programs[c].tries, Began: now}
}

func (s *state) listen(c int8) {
	s.srv.heard[c] = true
	for i := range s.clients[c].at {
		s.clients[c].at[i].wait.Last.Session = 0
	}
	for i := range s.flights {
		if s.flights[i].req.client == c {
			s.flights[i].session = false
		}
	}
}

// die ends a process. A process that only stands still keeps its connections.
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
