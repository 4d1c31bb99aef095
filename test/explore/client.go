package explore

import (
	"errors"
	"io"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// mode is what the network does with a request.
type mode int8

const (
	plainly   mode = iota // executed and answered at once
	delayed               // still on its way
	unheard               // executed; the answer is lost
	late                  // the client gave up; the request may yet be executed
	swallowed             // the client gave up; the request was never executed
	twice                 // executed, and may be executed again; the answer to an enter is lost
)

// errUnanswered is all that a client knows of a request that it gave up.
var errUnanswered = io.ErrUnexpectedEOF

// send sends a client's request.
func (x *explorer) send(s *state, r request, m mode) {
	f := flight{kind: pending, req: r, session: true, trusted: x.sentUnderTrust(s, &r)}
	s.eachOpened(&r, func(a *attempt) { a.requests.Sent() })
	switch m {
	case plainly:
		f.rep, f.stamp = x.execute(s, &r), s.clock
		x.answered(s, &f)
	case delayed:
		s.launch(f)
	case unheard:
		x.execute(s, &r)
		x.unanswered(s, &f)
	case swallowed:
		x.unanswered(s, &f)
	case late:
		x.unanswered(s, &f)
		f.kind = zombie
		s.launch(f)
	case twice:
		f.rep, f.stamp = x.execute(s, &r), s.clock
		if r.verb == enter || r.verb == try {
			x.unanswered(s, &f)
		} else {
			x.answered(s, &f)
		}
		f.kind = zombie
		s.launch(f)
	}
}

// eachOpened calls f for each ticket that r may still do something for while r is unanswered.
func (s *state) eachOpened(r *request, f func(*attempt)) {
	for t := range int8(tickets) {
		if r.client != admin && s.clients[r.client].alive && r.opens(t) {
			f(s.attempt(t))
		}
	}
}

func (s *state) launch(f flight) {
	for i := range s.flights {
		if s.flights[i].kind == landed {
			s.flights[i] = f
			return
		}
	}
	panic("no room for a flight") // every move that launches requires room
}

func (s *state) room() bool {
	for i := range s.flights {
		if s.flights[i].kind == landed {
			return true
		}
	}
	return false
}

func (x *explorer) sentUnderTrust(s *state, r *request) bool {
	return r.verb == leave && r.token != 0 && !rules.Passed(s.attempt(r.of[0].ticket).hold.TrustEnds, now)
}

// execute has the server execute a request now.
func (x *explorer) execute(s *state, r *request) reply {
	before := s.srv
	s.clock++
	after, e := x.server.execute(before, *r, fresh+int32(s.clock)*step)
	if x.trail != nil {
		*x.trail = append(*x.trail, r.String())
	}
	if e.err != nil {
		invariant := unable
		switch {
		case errors.Is(e.err, errForever):
			invariant = 5
		case errors.Is(e.err, errStrange):
			invariant = strange
		}
		x.broken(invariant, "%s: %v", r, e.err)
		return e.rep
	}
	s.srv = after
	for _, m := range e.told {
		m.stamp = s.clock
		c := &s.clients[m.client]
		if !before.heard[m.client] || !c.alive {
			continue
		}
		if int(c.mail) == len(c.inbox) {
			x.broken(unable, "more messages for one client than the explorer has room for")
			continue
		}
		c.inbox[c.mail] = m
		c.mail++
	}
	x.judge(s, &before, r, &e.rep)
	return e.rep
}

// unanswered: the client gets no answer. All it knows is that it sent the request.
func (x *explorer) unanswered(s *state, f *flight) {
	r := &f.req
	if r.client == admin {
		return
	}
	closed := s.clients[r.client].closed
	switch r.verb {
	case enter, try:
		s.eachOpened(r, func(a *attempt) { a.requests.EnterAnswered(true) })
		for _, of := range r.of[:r.n] {
			a := s.attempt(of.ticket)
			x.carryOut(s, of.ticket, a.wait.Unanswered(errUnanswered, now, a.requests.Open()), 0)
		}
	case renew, reassert:
		s.eachOpened(r, func(a *attempt) { a.requests.Answered(true) })
		s.attempt(r.ticket).asks = false
	case leave:
		for _, of := range r.of[:r.n] {
			a := s.attempt(of.ticket)
			if a.phase == releasing && a.hold.State == rules.Releasing {
				a.hold.Released("", errUnanswered, f.trusted, now, closed)
			}
			if closed && (a.phase == releasing || a.phase == leaving || a.phase == followed) {
				a.phase, s.truth.silent[of.ticket] = finished, true // a closed client sends its leave only once
			}
		}
	default:
	}
}

// answered: the client handles an answer.
func (x *explorer) answered(s *state, f *flight) {
	r, rep := &f.req, &f.rep
	if r.client == admin || !s.clients[r.client].alive {
		return
	}
	c := &s.clients[r.client]
	switch r.verb {
	case enter, try:
		s.eachOpened(r, func(a *attempt) { a.requests.EnterAnswered(false) })
		c.sees(rep.token)
		c.told = lua.Entered{Remaining: span(rep.remaining), More: rep.more, Heard: true}
		for i, of := range r.of[:r.n] {
			a := s.attempt(of.ticket)
			got := rep.of[i].state()
			step := a.wait.Told(&got, int64(rep.token), f.clocks(f.sent), now, a.requests.Open())
			x.carryOut(s, of.ticket, step, rep.of[i].token)
			if step.Do == rules.End && step.Why == rules.Forced {
				s.truth.forced[of.ticket] = 0 // the client knows of the force now
			}
		}
	case leave:
		for i, a := range r.of[:r.n] {
			x.left(s, f, a.ticket, rep.of[i].status)
		}
	case renew, reassert:
		s.eachOpened(r, func(a *attempt) { a.requests.Answered(false) })
		x.renewed(s, r, rep.left, f.sent)
	default:
	}
	if g := rep.passing; g.token != 0 {
		a := s.attempt(g.ticket)
		a.unknown = a.unknown || a.wait.Phase == rules.Gone
		grant := lua.Grant{Token: int64(g.token), Remaining: span(g.remaining)}
		step := a.wait.GrantedInPassing(&grant, then(f.sent), now, a.requests.Open())
		x.carryOut(s, g.ticket, step, g.token)
		a.run = step.Do == rules.Take && g.run
	}
}

// sees notes a token that the client learned of.
func (c *client) sees(token int32) {
	c.knew = max(c.knew, token)
	c.seen = int32(rules.Known{Token: int64(c.seen)}.And(rules.Known{Token: int64(token)}).Token)
}

// state returns what an answer says of a ticket, in the terms of package lua.
func (t *told) state() lua.TicketState {
	got := lua.TicketState{Status: said[t.status], Place: lua.Place(t.place)}
	if got.Status == lua.Granted {
		got.Grant = lua.Grant{Token: int64(t.token), Remaining: span(t.remaining)}
	}
	return got
}

var (
	said = map[status]lua.Status{granted: lua.Granted, waits: lua.Waiting, taken: lua.Taken, gone: lua.Gone, wasForced: lua.ForceEnded}
	left = map[status]lua.Was{heldBy: lua.Held, waits: lua.Waited, wasForced: lua.Forced, none: lua.Neither}
)

// carryOut does what a rule asks for a ticket, as the Lockers do. If the rule takes a grant, token
// is the grant's.
func (x *explorer) carryOut(s *state, t int8, step rules.Step, token int32) {
	a := s.attempt(t)
	switch step.Do {
	case rules.Take:
		s.clients[clientOf(t)].sees(token)
		a.phase, a.token, a.hold = held, token, rules.Begin(step.Term, span(lease), false, now)
		a.hold.LeaseGiven(now)
		if x.programs[clientOf(t)].lingers {
			a.phase = given
		}
	case rules.End:
		if a.phase = finished; step.Leave {
			x.leaves(s, t, leaving)
		}
	case rules.LeaveLine:
		s.truth.silent[t] = false
		x.leaves(s, t, leaving)
	case rules.GiveBack:
		if !x.passOn(s, t) {
			x.release(s, t)
		}
	case rules.Nothing, rules.Wait, rules.Ask: // the ticket may enter at any time
	}
}

// renewed handles the answer to a renewal.
func (x *explorer) renewed(s *state, r *request, left, sent ms) {
	a := s.attempt(r.ticket)
	if !a.holds() {
		return
	}
	switch {
	case r.verb == renew:
		a.asks = a.hold.Renewed(then(sent), span(left), 1)
	case left > 0:
		a.hold.Reasserted(then(sent), span(left), 1)
		a.asks = false
	default:
		if s.truth.forced[r.ticket] == 0 && !s.truth.flushed && s.srv.holds[r.ticket] > 0 {
			x.broken(6, "%s is told that it lost the lock, and the server has its hold", ticketName(r.ticket))
		}
		s.truth.forced[r.ticket] = 0 // the client knows of the force now
		x.lose(s, r.ticket, rules.Vanished)
	}
}

// hear handles the first message in a client's inbox.
func (x *explorer) hear(s *state, c int8) {
	cl := &s.clients[c]
	m := cl.inbox[0]
	copy(cl.inbox[:], cl.inbox[1:])
	cl.mail--
	cl.inbox[cl.mail] = message{}
	a, record := s.attempt(m.ticket), "ours"
	if m.forged {
		record = "another's"
	}
	if !rules.Concerns(record, lua.Ticket{}, "ours", lua.Ticket{}) {
		return
	}
	if m.verb == 'f' && s.truth.forced[m.ticket] == m.token {
		s.truth.forced[m.ticket] = 0 // the client knows of the force now
	}
	told := lua.Message{
		News: news[m.verb], Token: int64(m.token),
		At: executed(m.at, m.stamp), Claim: span(m.claim),
	}
	first := a.wait.Last.At == 0
	a.unknown = a.unknown || a.wait.Phase == rules.Gone
	step := a.wait.Heard(&told, heardAt, session, a.requests.Open())
	if step.Do == rules.Take && first {
		a.requests.Overtaken()
	}
	x.carryOut(s, m.ticket, step, m.token)
	a.run = a.run || step.Do == rules.Take && m.run
	for i := range cl.at {
		if h := &cl.at[i]; m.verb == 'f' && h.holds() && h.token == m.token {
			x.lose(s, 2*c+int8(i), rules.Forced)
		}
	}
}

// news are what messages tell, in the library's words.
var news = map[byte]lua.News{'g': lua.Grants, 'f': lua.Forces, 'h': lua.Recalls}
