package explore

import "fmt"

// The longest that somebody who lives may have to wait from any state on, if all others release at once: what holds the
// lock or its place ends first, and until then nobody comes sooner than with the heartbeat after it.
const (
	heartbeat  ms = 5000
	gathering  ms = 6000
	toBeServed    = lease + gathering + liveness + heartbeat
)

// drain checks that no state is a dead end (invariant 4): if there are no more faults but all that is on its way is lost,
// those who live and wait are granted by their own enters alone, one after the other, each released at once.
func (x *explorer) drain(s *state) {
	t := &x.work.quiet
	*t = *s
	t.quieten()
	var way []key
	for waited := ms(0); x.fault == nil && t.someoneWaits(); {
		t.normalise()
		x.work.quietCode = t.encode(x.work.quietCode[:0])
		k := x.key(x.work.quietCode)
		if _, ok := x.drained[k]; ok {
			break
		}
		way = append(way, k)
		if served := x.round(t); served {
			waited = 0
			continue
		}
		d := t.nextEnter()
		if x.trail != nil {
			*x.trail = append(*x.trail, fmt.Sprintf("%d ms pass", d))
		}
		x.pass(t, d)
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

// round has each client enter, release and leave what it can. It reports whether somebody was served.
func (x *explorer) round(s *state) (served bool) {
	for c := range int8(clients) {
		for i := range int8(2) {
			if a := &s.clients[c].at[i]; a.phase == waiting {
				x.send(s, x.request(s, move{what: beats, who: c}), plainly)
				break
			}
		}
		for i := range int8(2) {
			t := 2*c + i
			switch s.attempt(t).phase {
			case given, held, shut:
				x.send(s, x.request(s, move{what: unlocks, who: t}), plainly)
				served = true
			case releasing, leaving:
				x.send(s, x.request(s, move{what: again, who: t}), plainly)
			default:
			}
		}
		s.clients[c].mail = 0
	}
	for c := range s.clients {
		s.clients[c].mail = 0
	}
	return served
}

// nextEnter is when a waiter enters again: when what it was told is in its way is over, or with its next heartbeat.
func (s *state) nextEnter() ms {
	for _, end := range []ms{s.srv.ends, s.srv.gather} {
		if end != absent && end >= 0 && end < heartbeat {
			return end + 2
		}
	}
	return heartbeat
}
