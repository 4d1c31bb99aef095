package explore

import "errors"

// rules are the client's that a test can break; see fairlock/grant.go, fairlock/line.go, reentrant/hold.go and release.go
// for the real ones.
type rules struct {
	believeReceipt   bool // a grant counts from its receipt
	believeOlder     bool // a grant counts though an answer said "waiting" after it was written
	trustFromAnswer  bool // an answer's remaining time counts from its receipt
	trustUnanswered  bool // a renewal counts without an answer
	trustInRelease   bool // trust goes on until the release is answered
	neverRetire      bool
	neverSeen        bool // enters do not carry the largest token known
	alwaysClean      bool // a release is clean whatever is answered
	ignoreForce      bool // neither the message nor a lost renewal ends trust
	believeFinished  bool // a grant makes a ticket that has left the holder again
	believeOvertaken bool // an answer counts though a later one, or a message, knew better
	believeForged    bool // a grant counts for the number of its ticket, whatever lock and ticket it names
	forgetLost       bool // a hold that was lost by the server's word is left only if a request of it is open
	forgetOpen       bool // one whose time is over is not left though a request of it is open
	forgetTry        bool // a try that was granted too late to be of use is not given back
	ignoreLater      bool // an answer that says that a ticket which has left waits or holds is ignored
	closeInWindow    bool // a Lease may begin after Close
	keepInWindow     bool // a call that ends between the grant and its Lease does not give it back
	vanish           bool // nobody notices that the caller of a ticket in line is gone
	closeInLine      bool // Close leaves the line without telling
	askSeldom        bool // who waits asks again with its next heartbeat only
	impatient        bool // a leave is not sent again after a claim, though the lease is longer
}

// margin is how much earlier than the server a client ends its trust.
func margin(d ms) ms { return max(d/10, 10) }

// mode is what becomes of a request.
type mode int8

const (
	plainly   mode = iota // executed and answered at once
	delayed               // on its way
	unheard               // executed; the answer is lost
	late                  // given up; it may yet be executed
	swallowed             // given up; it never was executed
	twice                 // executed, and may be again; of an enter, the answer is lost
)

// send sends a request of a client.
func (x *explorer) send(s *state, r request, m mode) {
	f := flight{kind: pending, req: r, session: true, trusted: x.sentUnderTrust(s, &r)}
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

func (s *state) launch(f flight) {
	for i := range s.flights {
		if s.flights[i].kind == landed {
			s.flights[i] = f
			return
		}
	}
	panic("no room for a flight") // room is a condition of every move that launches
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
	return r.verb == leave && r.token != 0 && s.attempt(r.of[0].ticket).trusted > 0
}

// execute has the server execute a request, now.
func (x *explorer) execute(s *state, r *request) reply {
	before := s.srv
	s.clock++
	after, e := x.server.execute(before, *r, fresh+int32(s.clock)*step)
	if x.trail != nil {
		*x.trail = append(*x.trail, r.String())
	}
	if e.err != nil {
		invariant := 0
		if errors.Is(e.err, errForever) {
			invariant = 5
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
			x.broken(0, "more messages for one client than the explorer has room for")
			continue
		}
		c.inbox[c.mail] = m
		c.mail++
	}
	x.judge(s, &before, r, &e.rep)
	return e.rep
}

// unanswered: the client knows only that it sent a request.
func (x *explorer) unanswered(s *state, f *flight) {
	r := &f.req
	if r.client == admin {
		return
	}
	switch r.verb {
	case enter, try:
		for _, a := range r.of[:r.n] {
			s.attempt(a.ticket).open = true
		}
	case renew, reassert:
		a := s.attempt(r.ticket)
		a.open, a.asks = true, false
		if x.rules.trustUnanswered && a.holds() {
			a.trusted = max(a.trusted, f.sent+lease-margin(lease))
		}
	case leave:
		for _, of := range r.of[:r.n] {
			a := s.attempt(of.ticket)
			a.unanswered = a.unanswered || a.phase == releasing && f.trusted
			if s.clients[r.client].closed && (a.phase == releasing || a.phase == leaving) {
				a.phase, s.truth.silent[of.ticket] = finished, true // who is closed says it once
			}
		}
	default:
	}
}

// answered: the client takes in an answer.
func (x *explorer) answered(s *state, f *flight) {
	r, rep := &f.req, &f.rep
	if r.client == admin || !s.clients[r.client].alive {
		return
	}
	c := &s.clients[r.client]
	sent := f.sent
	if x.rules.trustFromAnswer {
		sent = 0
	}
	switch r.verb {
	case enter, try:
		c.seen, c.told, c.more = max(c.seen, rep.token), rep.remaining, rep.more
		for i, a := range r.of[:r.n] {
			x.told(s, f, a.ticket, &rep.of[i], sent)
		}
	case leave:
		for i, a := range r.of[:r.n] {
			x.left(s, f, a.ticket, rep.of[i].status)
		}
	case renew, reassert:
		x.renewed(s, r, rep.left, sent)
	default:
	}
	if g := rep.passing; g.token != 0 {
		switch a := s.attempt(g.ticket); {
		case a.phase == finished:
			x.unwanted(s, g.ticket, g.token)
		case a.phase == waiting && g.token > a.shown:
			x.granted(s, g.ticket, g.token, g.remaining, sent)
		}
	}
}

// told takes in what an answer says of one ticket.
func (x *explorer) told(s *state, f *flight, t int8, got *told, sent ms) {
	a := s.attempt(t)
	if a.phase != waiting {
		x.toldLater(s, t, got.status)
		return
	}
	switch got.status {
	case granted:
		if x.rules.believeOvertaken || got.token > a.ended && (got.token > a.shown || f.stamp >= a.stamp) {
			x.granted(s, t, got.token, got.remaining, sent)
		}
	case waits:
		a.shown = max(a.shown, f.rep.token)
		if !a.sighted || f.stamp >= a.stamp || a.place == 0 {
			a.place = got.place
		}
		if !a.sighted || f.stamp >= a.stamp {
			a.sighted, a.lag, a.stamp, a.session = true, f.lag, f.stamp, f.session
		}
		if s.truth.forced[t] != 0 && f.rep.token > s.truth.forced[t] {
			s.truth.forced[t] = 0 // it was told better
		}
	case heldBy, gone:
		x.dismiss(s, t)
	default:
	}
}

// granted takes in an answer's word that a ticket holds.
func (x *explorer) granted(s *state, t int8, token int32, remaining, sent ms) {
	a, c := s.attempt(t), &s.clients[clientOf(t)]
	c.seen = max(c.seen, token)
	span := lease
	if remaining <= claim {
		span = claim
	}
	a.trusted = sent + remaining - margin(span)
	switch {
	case a.trusted > 0:
		x.holds(s, t, token)
	case x.programs[clientOf(t)].tries && x.rules.forgetTry:
		x.dismiss(s, t)
	case x.programs[clientOf(t)].tries:
		x.leaves(s, t, leaving)
	}
}

// renewed takes in the answer to a renewal.
func (x *explorer) renewed(s *state, r *request, left, sent ms) {
	a := s.attempt(r.ticket)
	if !a.holds() {
		return
	}
	switch {
	case left > 0:
		a.trusted = max(a.trusted, sent+left-margin(left))
		a.asks = false
	case r.verb == renew:
		a.asks = true
	default:
		s.truth.forced[r.ticket] = 0 // it knows now
		if !x.rules.ignoreForce {
			x.lose(s, r.ticket, true)
		}
	}
}

// hear takes in the first message of a client's inbox.
func (x *explorer) hear(s *state, c int8) {
	cl := &s.clients[c]
	m := cl.inbox[0]
	copy(cl.inbox[:], cl.inbox[1:])
	cl.mail--
	cl.inbox[cl.mail] = message{}
	a := s.attempt(m.ticket)
	switch {
	case m.forged && !x.rules.believeForged:
		// It is about another lock.
	case m.verb == 'f':
		if s.truth.forced[m.ticket] == m.token {
			s.truth.forced[m.ticket] = 0 // it knows now
		}
		if a.phase == waiting {
			a.ended, a.shown = max(a.ended, m.token), max(a.shown, m.token)
		}
		for i := range cl.at {
			if h := &cl.at[i]; h.holds() && h.token == m.token && !x.rules.ignoreForce {
				x.lose(s, 2*c+int8(i), true)
			}
		}
	case m.verb == 'h':
		// It may enter at any time.
	case a.phase == finished && !x.rules.believeFinished:
		x.unwanted(s, m.ticket, m.token)
	case x.rules.believeFinished && (a.phase == finished || a.phase == leaving):
		a.phase, a.token, a.trusted = held, m.token, m.at+claim-margin(claim)
	case a.phase == waiting && (m.token > a.shown || x.rules.believeOlder):
		x.grantedByMessage(s, &m)
	}
}

// grantedByMessage believes a grant, or not: it enters then.
func (x *explorer) grantedByMessage(s *state, m *message) {
	a, c := s.attempt(m.ticket), &s.clients[m.client]
	c.seen = max(c.seen, m.token)
	expires := a.began + m.claim
	switch {
	case x.rules.believeReceipt:
		expires = m.claim
	case x.rules.believeOlder:
		expires = m.at + m.claim
	case a.sighted && (!a.session || m.stamp < a.stamp):
		return
	case a.sighted:
		expires = min(m.at-a.lag+m.claim, m.claim)
	}
	if a.trusted = expires - margin(m.claim); a.trusted > 0 {
		x.holds(s, m.ticket, m.token)
		return
	}
	a.trusted = 0
	if a.late++; a.late >= 2 {
		a.late, a.place = 0, 0
	}
}
