package explore

import (
	"bytes"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// normalise makes states equal that differ only in what can no longer matter.
func (s *state) normalise() {
	s.settleTimes()
	for i := range s.clients {
		s.tidy(int8(i))
	}
	s.sortFlights()
	s.renumber()
	s.restamp()
}

// over forgets how long ago a time has passed: the scripts do not ask for that.
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
		over(&k.forced[i])
		t := &s.truth
		t.entered[i] = max(t.entered[i], -liveness)
		t.back[i] = t.back[i] && s.running()
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

// tidy forgets what the client's attempts no longer need.
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
			a.hold, a.until = rules.Hold{}, 0
			tidyWait(&a.wait)
		case given, held, passed, shut, releasing:
			*a = attempt{
				phase: a.phase, requests: a.requests, token: a.token, until: a.until, asks: a.asks && a.holds(), gone: a.gone,
				wait: rules.Waiter{Phase: a.wait.Phase, Place: a.wait.Place}, hold: a.hold, follows: a.follows,
				run: a.run && (a.phase == given || a.phase == held) && cl.at[1-i].phase == waiting,
			}
			if a.follows {
				a.hold, a.token = rules.Hold{}, 0
			} else {
				a.wait.Place = 0
				tidyHold(&a.hold)
			}
			if a.phase != releasing {
				a.until = 0
			}
		case followed:
			*a = attempt{
				phase: a.phase, requests: a.requests, follows: true,
				wait: rules.Waiter{Phase: rules.Granted, Place: a.wait.Place},
			}
		case leaving:
			*a = attempt{
				phase: a.phase, requests: a.requests, until: a.until, unknown: a.unknown,
				wait: rules.Waiter{Phase: rules.Leaving, Place: a.wait.Place},
			}
		case finished:
			*a = attempt{phase: finished, wait: rules.Waiter{Phase: rules.Gone}}
			s.forget(t)
		}
		if s.budget.tired == 0 {
			a.until = 0
		}
		a.until = max(a.until, 0)
	}
	cl.told = lua.Entered{}
	if !waits {
		cl.seen, cl.knew = 0, 0
	}
	for i := range cl.inbox[:cl.mail] {
		cl.inbox[i].at = max(cl.inbox[i].at, -claim)
	}
	for i := int(cl.mail); i < len(cl.inbox); i++ {
		cl.inbox[i] = message{}
	}
}

// oldest is the age of a waiter's last answer beyond which the waiter believes no message.
const oldest = 10 * claim

// tidyWait forgets what the rules of a waiter do not ask for.
func tidyWait(w *rules.Waiter) {
	if w.Last.At == 0 {
		w.Began = then(max(from(w.Began), -claim))
		return
	}
	w.Began = time.Time{}
	lag, age, stamp := parts(&w.Last)
	w.Last = joined(min(lag, claim), max(age, -oldest), stamp, w.Last.Session)
}

// lasts is longer than a run.
const lasts = 100 * time.Millisecond

// tidyHold forgets what the rules of a hold do not ask for here. Renewals may go out at any time.
func tidyHold(h *rules.Hold) {
	h.RenewAt, h.SyncAt, h.TokenEnds = time.Time{}, time.Time{}, now.Add(lua.TokenTTL)
	h.Term = rules.Term{Span: span(lease), Ends: then(max(from(h.Term.Ends), -1))}
	h.TrustEnds = then(max(from(h.TrustEnds), 0))
	if h.State != rules.Held && h.State != rules.Releasing {
		h.TrustEnds = now
	}
	if now.Sub(h.Began) >= lasts { // it passes to no other ticket any more
		h.Began = time.Time{}
	} else {
		h.Began = now
	}
}

// forget drops what is known of a finished ticket, once nothing can bring the ticket back.
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

// renumber replaces tokens and places by their ranks.
func (s *state) renumber() {
	ranks(s.eachToken).apply(s.eachToken)
	ranks(s.eachPlace).apply(s.eachPlace)
}

func (r *rank) apply(each func(func(*int32))) { each(r.inner) }

// long applies f to a 64-bit number of the rules. It needs room for a shorter one.
func long(n *int64, room *int32, f func(*int32)) {
	*room = int32(*n)
	f(room)
	*n = int64(*room)
}

func (s *state) eachToken(f func(*int32)) {
	room := new(int32)
	eachToken(&s.srv, f)
	f(&s.truth.most)
	for i := range s.truth.forced {
		f(&s.truth.forced[i])
	}
	for i := range s.clients {
		c := &s.clients[i]
		f(&c.seen)
		f(&c.knew)
		for j := range c.at {
			long(&c.at[j].wait.Shown, room, f)
			long(&c.at[j].wait.Forced, room, f)
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
	room := new(int32)
	eachPlace(&s.srv, f)
	for i := range s.truth.place {
		f(&s.truth.place[i])
	}
	for i := range s.clients {
		for j := range s.clients[i].at {
			long((*int64)(&s.clients[i].at[j].wait.Place), room, f)
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

// restamp forgets most of the order of executions. What can still matter is which executions came
// before the writing of an unheard grant.
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
			if last := &c.at[j].wait.Last; last.At != 0 {
				lag, age, stamp := parts(last)
				between(&stamp)
				*last = joined(lag, age, stamp, last.Session)
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
			c.inbox[j].stamp++ // after the executions that came before it
		}
	}
	s.clock = int16(2*written.n + 4)
}
