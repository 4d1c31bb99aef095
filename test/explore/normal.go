package explore

import "bytes"

// normalise makes states equal that differ only in what cannot matter any more.
func (s *state) normalise() {
	s.settleTimes()
	for i := range s.clients {
		s.tidy(int8(i))
	}
	s.sortFlights()
	s.renumber()
	s.restamp()
}

// over is a time that has passed: how long ago it was is nothing to the scripts.
func over(t *ms) {
	if *t != absent && *t < 0 {
		*t = -1
	}
}

func (s *state) settleTimes() {
	k := &s.srv
	for i := range tickets {
		over(&k.holds[i])
		over(&k.waits[i])
		over(&k.retired[i])
		t := &s.truth
		t.entered[i] = max(t.entered[i], -liveness)
		if !t.inLine[i] {
			t.entered[i], t.place[i] = 0, 0
		}
	}
	for i := range clients {
		over(&k.blind[i])
		over(&k.passed[i])
		s.truth.blind[i] = max(s.truth.blind[i], 0)
	}
	over(&k.kept)
	over(&k.gather)
	for i := range k.forced {
		over(&k.forced[i].ends)
	}
	for i := range s.flights {
		f := &s.flights[i]
		f.sent, f.lag = max(f.sent, -lease), min(f.lag, claim)
		switch f.kind {
		case landed:
			*f = flight{}
		case zombie:
			*f = flight{kind: zombie, req: f.req}
		case pending:
			f.lag, f.stamp = 0, 0
		default:
		}
	}
}

// tidy forgets what the client's attempts have no more use for.
func (s *state) tidy(c int8) {
	cl := &s.clients[c]
	if !cl.alive {
		*cl = client{at: [2]attempt{{phase: finished}, {phase: finished}}}
	}
	waits := false
	for i := range cl.at {
		a := &cl.at[i]
		t := 2*c + int8(i)
		switch a.phase {
		case idle:
			waits = true
			*a = attempt{}
		case waiting:
			waits = true
			a.began, a.lag = max(a.began, -claim), min(a.lag, claim)
			if a.sighted {
				a.began = 0
			}
		case given, held, shut, releasing:
			*a = attempt{
				phase: a.phase, open: a.open, token: a.token, trusted: max(a.trusted, 0), until: a.until,
				asks: a.asks, unanswered: a.unanswered, gone: a.gone,
			}
			if !a.holds() {
				a.asks = false
			}
			if a.phase == releasing {
				a.trusted = 0
			} else {
				a.until = 0
			}
		case leaving:
			*a = attempt{phase: a.phase, place: a.place, until: a.until, open: a.open}
		case finished:
			*a = attempt{phase: finished}
			s.forget(t)
		}
		if s.budget.tired == 0 {
			a.until = 0
		}
		a.until = max(a.until, 0)
	}
	cl.told, cl.more = 0, false
	if !waits {
		cl.seen = 0
	}
	for i := range cl.inbox[:cl.mail] {
		cl.inbox[i].at = max(cl.inbox[i].at, -claim)
	}
	for i := int(cl.mail); i < len(cl.inbox); i++ {
		cl.inbox[i] = message{}
	}
}

// forget drops what is known of a finished ticket once nothing can bring it back.
func (s *state) forget(t int8) {
	if s.mentioned(t) || s.srv.holds[t] > 0 || s.srv.lines(t) {
		return
	}
	tr := &s.truth
	tr.left[t], tr.clean[t], tr.forced[t], tr.orphan[t], tr.unknown[t], tr.silent[t] = false, false, 0, false, false, false
}

func (s *state) sortFlights() {
	var codes [len(s.flights)][]byte
	var room [len(s.flights)][96]byte
	for i := range s.flights {
		codes[i] = s.flights[i].encode(room[i][:0])
	}
	for i := 1; i < len(codes); i++ {
		for j := i; j > 0 && bytes.Compare(codes[j], codes[j-1]) > 0; j-- {
			codes[j], codes[j-1] = codes[j-1], codes[j]
			s.flights[j], s.flights[j-1] = s.flights[j-1], s.flights[j]
		}
	}
}

// renumber gives tokens and places the numbers of their ranks.
func (s *state) renumber() {
	ranks(s.eachToken).apply(s.eachToken)
	ranks(s.eachPlace).apply(s.eachPlace)
}

func (r *rank) apply(each func(func(*int32))) { each(r.inner) }

func (s *state) eachToken(f func(*int32)) {
	eachToken(&s.srv, f)
	f(&s.truth.most)
	for i := range s.truth.forced {
		f(&s.truth.forced[i])
	}
	for i := range s.clients {
		c := &s.clients[i]
		f(&c.seen)
		for j := range c.at {
			f(&c.at[j].shown)
			f(&c.at[j].ended)
			f(&c.at[j].token)
		}
		for j := range c.inbox[:c.mail] {
			f(&c.inbox[j].token)
		}
	}
	for i := range s.flights {
		l := &s.flights[i]
		f(&l.req.token)
		f(&l.req.seen)
		f(&l.req.knew)
		f(&l.rep.token)
		f(&l.rep.passing.token)
		for j := range l.rep.of {
			f(&l.rep.of[j].token)
		}
	}
}

func (s *state) eachPlace(f func(*int32)) {
	eachPlace(&s.srv, f)
	for i := range s.truth.place {
		f(&s.truth.place[i])
	}
	for i := range s.clients {
		for j := range s.clients[i].at {
			f(&s.clients[i].at[j].place)
		}
	}
	for i := range s.flights {
		l := &s.flights[i]
		eachAsked(&l.req, f)
		for j := range l.rep.of {
			f(&l.rep.of[j].place)
		}
	}
}

// restamp keeps of the executions' order what can be asked: which of them were before the writing of a grant on its way.
func (s *state) restamp() {
	var written rank
	for i := range s.clients {
		c := &s.clients[i]
		for _, m := range c.inbox[:c.mail] {
			written.add(int32(m.stamp))
		}
	}
	between := func(stamp *int16) {
		n := int16(0)
		for _, w := range written.values[:written.n] {
			if w < int32(*stamp) {
				n += 2
			}
		}
		*stamp = n + 1
	}
	for i := range s.clients {
		c := &s.clients[i]
		for j := range c.at {
			if c.at[j].sighted {
				between(&c.at[j].stamp)
			}
		}
	}
	for i := range s.flights {
		if f := &s.flights[i]; f.kind == answer {
			between(&f.stamp)
		}
	}
	for i := range s.clients {
		c := &s.clients[i]
		for j := range c.inbox[:c.mail] {
			between(&c.inbox[j].stamp)
			c.inbox[j].stamp++ // after those that were before it
		}
	}
	s.clock = int16(2*written.n + 4)
}
