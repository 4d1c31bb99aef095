package explore

import "slices"

// what says what kind of move a move is.
type what int8

const (
	begins   what = iota // a client's attempt sends its first enter or its try
	together             // both attempts of a client send their first enter as one request
	beats                // a client's waiters enter
	asks                 // only the first of several waiters enters
	renews               // a holder renews, or reasserts if the record did not have its hold
	unlocks              // a holder releases
	goesOn               // a holder's turn passes to its client's other ticket
	cancels              // a waiter gives up
	again                // a leave is sent, or sent again
	adopts               // a call that was granted has its Lease
	closes               // a client is closed
	ends                 // the subscription of a closed client ends, once nothing of the client is on its way
	tires                // the client no longer sends a leave again
	forges               // a script of somebody with rights to another lock publishes a grant
	forces               // an administrator ends the present ownership
	arrives              // a request is executed, late or after a delay
	returns              // an answer arrives
	times                // a client no longer waits for an answer
	hears                // a client handles a message
	misses               // a message is lost
	doubles              // a message will arrive once more
	deafens              // a client's subscription is lost
	listens              // the subscription comes back
	crashes              // a process is killed
	stops                // a process stands still for good, its connections open
	flushes              // all data is lost
	elapses              // time goes by
)

// move is one step from a state to another.
type move struct {
	what what
	who  int8 // client, ticket or flight
	mode mode
	by   ms
}

// moves returns all that can happen next.
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
			to = append(to, move{what: elapses, by: t})
		}
	}
	return to
}

func (x *explorer) clientMoves(s *state, c int8, to []move) []move { //nolint:funlen // a line or two for each
	cl, u, p := &s.clients[c], &s.budget, &x.programs[c]
	add := func(w what, who int8) {
		to = append(to, move{what: w, who: who})
		if u.faults == 0 {
			return
		}
		for _, m := range []struct {
			mode
			n int8
		}{{delayed, u.delay}, {unheard, u.lose}, {late, u.late}, {swallowed, u.swallowed}, {twice, u.twice}} {
			if m.n > 0 && (m.mode == unheard || m.mode == swallowed || s.room()) {
				to = append(to, move{what: w, who: who, mode: m.mode})
			}
		}
	}
	beating := 0
	for i := range int8(2) {
		t := 2*c + i
		switch a := &cl.at[i]; a.phase {
		case idle:
			if i < p.tickets && (i == 0 || p.parallel || cl.at[0].phase == finished) {
				add(begins, t)
			}
		case waiting:
			if s.enters(t, p) {
				beating++
			}
			if p.cancels && !a.gone {
				add(cancels, t)
			}
		case held:
			if !cl.closed && !a.follows && (!s.underway(t) || a.asks) {
				add(renews, t)
			}
			if s.mayPass(t) {
				to = append(to, move{what: goesOn, who: t})
			} else {
				add(unlocks, t)
			}
		case passed:
			if !cl.closed && (!s.underway(t) || a.asks) {
				add(renews, t)
			}
		case given:
			if !cl.closed && !a.follows && (!s.underway(t) || a.asks) {
				add(renews, t)
			}
			if s.holdOf(t).Leasable(cl.closed) {
				to = append(to, move{what: adopts, who: t})
			}
			if (p.cancels || cl.closed) && !a.gone {
				add(cancels, t)
			}
		case shut:
			add(unlocks, t)
		case releasing, leaving:
			if !s.leaves(t) {
				add(again, t)
			}
			if u.tired > 0 && a.until <= 0 && !s.mentioned(t) {
				to = append(to, move{what: tires, who: t})
			}
		default:
		}
	}
	if p.parallel && cl.at[0].phase == idle && cl.at[1].phase == idle {
		add(together, c)
	}
	if beating > 0 {
		add(beats, c)
	}
	if beating > 1 {
		add(asks, c)
	}
	if cl.mail > 0 {
		to = append(to, move{what: hears, who: c})
	}
	switch {
	case cl.closed && s.srv.heard[c] && !s.unclosed(c):
		to = append(to, move{what: ends, who: c})
	case !cl.closed && !s.srv.heard[c]:
		to = append(to, move{what: listens, who: c})
	}
	if u.closed > 0 && !cl.closed {
		to = append(to, move{what: closes, who: c})
	}
	if u.faults > 0 {
		to = s.misfortunes(c, to)
	}
	return to
}

// misfortunes are the faults that hit one client and none of its requests.
func (s *state) misfortunes(c int8, to []move) []move {
	cl, u := &s.clients[c], &s.budget
	if cl.mail > 0 {
		if u.dropped > 0 {
			to = append(to, move{what: misses, who: c})
		}
		if u.doubled > 0 && int(cl.mail) < len(cl.inbox) {
			to = append(to, move{what: doubles, who: c})
		}
	}
	if u.forged > 0 && s.srv.heard[c] && int(cl.mail) < len(cl.inbox) {
		for i := range int8(2) {
			if cl.at[i].phase == waiting {
				to = append(to, move{what: forges, who: 2*c + i})
			}
		}
	}
	if s.srv.heard[c] && u.deaf > 0 {
		to = append(to, move{what: deafens, who: c})
	}
	if u.crash > 0 {
		to = append(to, move{what: crashes, who: c})
	}
	if u.stop > 0 {
		to = append(to, move{what: stops, who: c})
	}
	return to
}

// enters reports whether a waiting attempt takes part in its client's heartbeats: its first request
// has been answered or has failed.
func (s *state) enters(t int8, p *program) bool {
	a := s.attempt(t)
	return !s.underway(t) || !p.tries && (a.wait.Last.At != 0 || a.requests.Lost)
}

// leaves reports whether a leave of the ticket is on its way while its client waits for the answer.
func (s *state) leaves(t int8) bool {
	for i := range s.flights {
		if f := &s.flights[i]; (f.kind == pending || f.kind == answer) && f.req.verb == leave && f.req.about(t) {
			return true
		}
	}
	return false
}

// instants returns the coming times at which something ends. A key ends twice: once for the last
// millisecond in which it is still there, and once for the millisecond after.
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
		switch a := s.attempt(i); a.phase {
		case given, held, passed, shut:
			add(from(s.holdOf(i).TrustEnds))
		case leaving, releasing:
			add(a.until)
		default:
		}
	}
	for i := range clients {
		add(k.blind[i])
	}
	add(k.gather)
	slices.Sort(all)
	return all
}
