package explore

import (
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// toBeServed is the longest wait of a live waiter from any state on, if all others release at once.
// The hold, or whatever keeps the waiter's place, ends first. The waiter's next heartbeat may come
// a whole interval after that.
const (
	heartbeat  ms = 5000
	gathering     = ms(lua.Gathering / time.Millisecond)
	toBeServed    = lease + gathering + liveness + heartbeat
	idleAtMost ms = 100
)

// drain checks that no state is a dead end (invariant 4). There are no more faults, but all that is
// on its way is lost. Then the live waiters must be granted the lock one after the other, by their
// own enters alone. Each of them releases at once.
func (x *explorer) drain(s *state) {
	t := &x.work.quiet
	*t = *s
	t.quieten()
	var way []key
	var due pace
	for waited := ms(0); x.fault == nil && t.someoneWaits(); {
		t.normalise()
		x.work.quietCode = due.encode(t.encode(x.work.quietCode[:0]))
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

// quieten loses all that is on its way and ends all faults.
func (s *state) quieten() {
	for i := range int8(tickets) {
		a := s.attempt(i)
		for a.requests.InFlight > 0 {
			a.requests.Answered(true)
		}
		a.requests.Executed = false
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

// round has each client send the enter that is due, and release and leave what it can. Of the
// messages only hints come through. round reports whether a ticket was served.
func (x *explorer) round(s *state, due *pace) (served bool) {
	for c := range int8(clients) {
		if n := s.waiters(c); n > 0 && !due.of(c).Due.After(now) {
			m := move{what: beats, who: c}
			if due[c].Beat(now, span(claim), n) {
				m.what = asks
			}
			x.send(s, x.request(s, m), plainly)
			due[c].Answered(&s.clients[c].told, now, false)
		}
	}
	for t := range int8(tickets) {
		switch s.attempt(t).phase {
		case given, held, shut:
			if !x.passOn(s, t) {
				x.apply(s, move{what: unlocks, who: t})
			}
			served = true
		case releasing, leaving:
			x.send(s, x.request(s, move{what: again, who: t}), plainly)
		default:
		}
	}
	for c := range s.clients {
		for _, m := range s.clients[c].inbox[:s.clients[c].mail] {
			if m.verb == 'h' {
				due.of(int8(c)).EnterAt(now)
			}
		}
		s.clients[c].mail = 0
	}
	return served
}

// waiters returns how many tickets of the client wait.
func (s *state) waiters(c int8) (n int) {
	for i := range s.clients[c].at {
		if s.clients[c].at[i].phase == waiting {
			n++
		}
	}
	return n
}

// pace says when each client's waiters enter again if nothing reaches them. At first all are due.
type pace [clients]rules.Line

// of returns the line of a client.
func (p *pace) of(c int8) *rules.Line {
	if p[c].Due.IsZero() {
		p[c] = rules.Line{Due: now, Whole: now, Entered: then(-heartbeat)}
	}
	return &p[c]
}

// pass lets time go by.
func (p *pace) pass(d ms) {
	for c := range int8(clients) {
		ln := p.of(c)
		for _, t := range []*time.Time{&ln.Due, &ln.Whole, &ln.Entered} {
			*t = t.Add(-span(d))
		}
	}
}

// encode writes down all that decides what comes.
func (p *pace) encode(b []byte) []byte {
	for c := range int8(clients) {
		ln := p.of(c)
		b = put(b, max(from(ln.Due), 0), max(from(ln.Whole), 0), max(from(ln.Entered), -100))
	}
	return b
}

// next returns when the first of the waiters enters again.
func (s *state) next(due *pace) ms {
	first := heartbeat
	for c := range int8(clients) {
		if s.waiters(c) > 0 {
			first = min(first, max(from(due.of(c).Due), 0))
		}
	}
	return first
}

// judgeIdle: a lock is not idle while a waiter is alive and reachable, whoever had the lock last
// and however that hold ended. There are two exceptions. After a loss of data, the time that was
// kept for forgotten holders may end sooner than any waiter was told. And a client that the server
// does not see hears no hint.
func (x *explorer) judgeIdle(s *state, d ms) {
	idle := d - max(s.srv.ends, s.srv.gather, 0)
	for i := range int8(tickets) {
		if idle > idleAtMost && !s.truth.flushed && s.srv.heard[clientOf(i)] && x.due(s, &s.srv, &request{client: admin}, i) {
			x.broken(4, "the lock is idle for %d ms while %s waits", idle, ticketName(i))
		}
	}
}
