package explore

import "fmt"

// The longest that somebody who lives may have to wait from any state on, if all others release at once: what holds the
// lock or its place ends first, and until then nobody comes sooner than with the heartbeat after it.
const (
	heartbeat  ms = 5000
	asking        = claim * 5 / 6 // the first of a client's waiters asks again: no claim on the lock passes between two of its answers
	gathering  ms = 6000
	toBeServed    = lease + gathering + liveness + heartbeat
	idleAtMost ms = 100
)

// drain checks that no state is a dead end (invariant 4): if there are no more faults but all that is on its way is lost,
// those who live and wait are granted by their own enters alone, one after the other, each released at once.
func (x *explorer) drain(s *state) {
	t := &x.work.quiet
	*t = *s
	t.quieten()
	var way []key
	var due pace
	for waited := ms(0); x.fault == nil && t.someoneWaits(); {
		t.normalise()
		x.work.quietCode = put(put(t.encode(x.work.quietCode[:0]), due.ask[:]...), due.all[:]...)
		k := x.key(x.work.quietCode)
		if _, ok := x.drained[k]; ok {
			break
		}
		way = append(way, k)
		if served := x.round(t, &due); served {
			waited = 0
		}
		d := t.next(&due)
		x.judgeIdle(t, d)
		if x.trail != nil && d > 0 {
			*x.trail = append(*x.trail, fmt.Sprintf("%d ms pass", d))
		}
		x.pass(t, d)
		due.pass(d)
		if waited += d; waited > toBeServed {
			x.broken(4, "somebody who lives waits for ever")
		}
		x.longest = max(x.longest, waited)
	}
	if x.fault == nil {
		for _, k := range way {
			x.drained[k] = struct{}{}
		}
	}
}

// quieten loses what is on its way; no faults are to come.
func (s *state) quieten() {
	for i := range int8(tickets) {
		a := s.attempt(i)
		a.open = a.open || s.underway(i)
	}
	s.flights = [len(s.flights)]flight{}
	for i := range s.clients {
		s.clients[i].mail = 0
		s.clients[i].inbox = [len(s.clients[i].inbox)]message{}
	}
	s.budget = budget{}
}

func (s *state) someoneWaits() bool {
	for i := range int8(tickets) {
		if s.attempt(i).phase == waiting {
			return true
		}
	}
	return false
}

// round has each client enter that has to, and release and leave what it can; of the messages
// only hints come through. It reports whether somebody was served.
func (x *explorer) round(s *state, due *pace) (served bool) {
	for c := range int8(clients) {
		if s.waits(c) && due.ask[c] <= 0 {
			some := due.all[c] > 0 && s.clients[c].at[0].phase == s.clients[c].at[1].phase
			m := move{what: beats, who: c}
			if some {
				m.what = asks
			}
			x.send(s, x.request(s, m), plainly)
			x.paces(&s.clients[c], due, c, some)
		}
	}
	for t := range int8(tickets) {
		switch s.attempt(t).phase {
		case given, held, shut:
			x.send(s, x.request(s, move{what: unlocks, who: t}), plainly)
			served = true
		case releasing, leaving:
			x.send(s, x.request(s, move{what: again, who: t}), plainly)
		default:
		}
	}
	for c := range s.clients {
		for _, m := range s.clients[c].inbox[:s.clients[c].mail] {
			if m.verb == 'h' {
				due.ask[c], due.all[c] = 0, 0
			}
		}
		s.clients[c].mail = 0
	}
	return served
}

// waits reports whether the client has a ticket that waits.
func (s *state) waits(c int8) bool {
	return s.clients[c].at[0].phase == waiting || s.clients[c].at[1].phase == waiting
}

// pace is when a client enters again that nobody tells anything.
type pace struct {
	ask [clients]ms // with its first waiter, or with all
	all [clients]ms // with all
}

// paces takes in an answer: the client enters again when what it was told is in its way is over,
// or as it always does.
func (x *explorer) paces(c *client, due *pace, i int8, some bool) {
	if !some {
		due.all[i] = heartbeat
	}
	if due.ask[i] = min(asking, due.all[i]); x.rules.askSeldom {
		due.ask[i] = due.all[i]
	}
	if c.told > 0 {
		due.ask[i] = min(due.ask[i], c.told+2)
	}
	if c.more {
		due.ask[i], due.all[i] = 5, 0
	}
}

func (p *pace) pass(d ms) {
	for c := range p.ask {
		p.ask[c], p.all[c] = max(p.ask[c]-d, 0), max(p.all[c]-d, 0)
	}
}

// next is when the first of those who wait enters again.
func (s *state) next(due *pace) ms {
	first := heartbeat
	for c := range int8(clients) {
		if s.waits(c) {
			first = min(first, due.ask[c])
		}
	}
	return first
}

// judgeIdle: a lock is not idle while one waits that lives and can be reached, whoever had it
// last and however that ended. After a loss of data, what was kept for those who had been
// forgotten may be free sooner than anybody was told; and whom the server does not see hears no
// hint.
func (x *explorer) judgeIdle(s *state, d ms) {
	idle := d - max(s.srv.ends, s.srv.gather, 0)
	for i := range int8(tickets) {
		if idle > idleAtMost && !s.truth.flushed && s.srv.heard[clientOf(i)] && x.due(s, &s.srv, &request{client: admin}, i) {
			x.broken(4, "the lock is idle for %d ms while %s waits", idle, ticketName(i))
		}
	}
}
