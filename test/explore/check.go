package explore

import (
	"fmt"

	"github.com/fairlock/locks/internal/rules"
)

// broken notes that a promise does not hold. The table in docs/safety.md numbers the promises.
func (x *explorer) broken(invariant int, format string, args ...any) {
	if x.fault == nil {
		x.fault = &fault{invariant, fmt.Sprintf(format, args...)}
	}
}

// What the explorer also objects to has numbers of its own. It is unable to go on after an error of
// a script or a reply that it cannot read, and without room: no mutation counts as found by that.
const (
	unable  = 0
	strange = 9 // a script wrote what no script should write
)

// fault is a broken invariant.
type fault struct {
	invariant int
	text      string
}

func (f *fault) Error() string { return fmt.Sprintf("invariant %d: %s", f.invariant, f.text) }

// judge checks what the execution of a request did.
func (x *explorer) judge(s *state, before *keys, r *request, rep *reply) {
	after, t := &s.srv, &s.truth
	x.judgeEnd(s, before, r)
	newcomers := t.newcomers(r)
	t.executed(before, after, r, rep)
	if given := x.given(before, after, r); given >= 0 {
		x.judgeGrant(s, before, r, given, newcomers)
	}
	for i := range int8(tickets) {
		if before.holds[i] <= 0 && after.holds[i] > 0 && r.verb != reassert {
			t.orphans(i)
		}
		x.judgePlace(s, before, r, i)
		if (r.verb == renew || r.verb == reassert) && before.holds[i] <= 0 && after.holds[i] > 0 &&
			(!t.flushed || t.left[i] || t.forced[i] != 0) {
			x.broken(8, "%s holds again, though that had ended", ticketName(i))
		}
	}
	x.judgeReply(s, before, r, rep)
	x.judgeFree(s, r, rep)
}

// given returns the ticket that the request made the owner, or -1.
func (x *explorer) given(before, after *keys, r *request) int8 {
	if r.verb == reassert || after.owner == nobody || after.token == before.token && after.owner == before.owner {
		return -1
	}
	for i, end := range after.holds {
		if end > 0 {
			return int8(i)
		}
	}
	return -1
}

// judgeEnd: only its own holders end an ownership, or a force that names its token. Nothing else
// shortens a hold.
func (x *explorer) judgeEnd(s *state, before *keys, r *request) {
	after := &s.srv
	for i, end := range before.holds {
		own := r.verb == leave && r.about(int8(i)) || r.verb == force && r.token == before.token
		// After a loss of data, a forced holder may have asserted itself before it heard of the
		// force. Clients that know a larger token may end that ownership.
		own = own || s.truth.flushed && (r.seen > before.token || r.verb == reassert && r.token > before.token)
		if end > 0 && after.holds[i] < end && !own {
			x.broken(6, "%s ended or shortened the hold of %s", r, ticketName(int8(i)))
		}
	}
	// A placeholder ends for a client that knows its token. A larger token replaces it.
	knew := r.seen > before.token || r.token >= before.token && (r.verb == leave || r.verb == reassert || r.verb == force)
	if before.kept > 0 && after.token != before.token && !knew {
		x.broken(1, "%s ended the placeholder", r)
	}
}

// judgeGrant: tokens grow, and the lock goes to the first waiter that is alive and reachable.
func (x *explorer) judgeGrant(s *state, before *keys, r *request, to int8, newcomers [tickets]bool) {
	t := &s.truth
	if s.srv.token <= t.most {
		x.broken(3, "%s got a token that is not larger than one before", ticketName(to))
	}
	t.most = s.srv.token
	if t.left[to] {
		x.broken(8, "%s was granted the lock, though it had left", ticketName(to))
	}
	asks := (r.verb == enter || r.verb == try) && r.about(to)
	if !asks && !x.reachable(s, before, r, to) {
		x.broken(4, "%s was granted the lock, though nobody hears it", ticketName(to))
	}
	if !asks && t.inLine[to] && t.entered[to]+liveness <= 0 {
		x.broken(4, "%s was granted the lock, though it is overdue", ticketName(to))
	}
	place := t.placeOf(to, r)
	for i := range int8(tickets) {
		if i != to && !newcomers[i] && (place == 0 || t.place[i] < place) && x.due(s, before, r, i) {
			x.broken(2, "%s overtook %s", ticketName(to), ticketName(i))
		}
	}
}

// newcomers are the tickets of an enter without a place, neither in the request nor in line. The
// script may order them as it likes.
func (t *truth) newcomers(r *request) (are [tickets]bool) {
	for _, a := range r.of[:r.n] {
		are[a.ticket] = r.verb == enter && a.place == 0 && !t.inLine[a.ticket]
	}
	return are
}

// placeOf returns a ticket's place in line, or the place with which this request brings it back. 0
// is behind all others.
func (t *truth) placeOf(i int8, r *request) int32 {
	for _, a := range r.of[:r.n] {
		if a.ticket == i && a.place != 0 && r.verb == enter {
			return a.place
		}
	}
	if t.inLine[i] {
		return t.place[i]
	}
	return 0
}

// judgePlace: a waiter that is alive and reachable stays in line until it holds the lock.
func (x *explorer) judgePlace(s *state, before *keys, r *request, i int8) {
	t := &s.truth
	switch {
	case !t.inLine[i]:
	case s.srv.holds[i] > 0:
		t.inLine[i] = false
	case s.srv.lines(i):
	default:
		if x.due(s, before, r, i) {
			x.broken(2, "%s was dropped from the line, though it lives and can be reached", ticketName(i))
		}
		t.inLine[i] = false
		if t.entered[i]+liveness > 0 {
			t.passed[clientOf(i)] = true
		}
	}
}

// due reports whether a waiting ticket is alive and reachable, so that its turn must not pass by.
func (x *explorer) due(s *state, before *keys, r *request, i int8) bool {
	t, c := &s.truth, clientOf(i)
	// After one ticket of a client was passed over, the client's later tickets are held back until
	// its next enter.
	return t.inLine[i] && !s.attempt(i).follows && s.clients[c].alive && t.entered[i]+liveness > 0 && !t.passed[c] && x.reachable(s, before, r, i)
}

func (x *explorer) reachable(s *state, before *keys, r *request, i int8) bool {
	c := clientOf(i)
	return before.heard[c] || r.client == c || s.truth.blind[c] > 0
}

// judgeReply: what a reply says of a ticket is true.
func (x *explorer) judgeReply(s *state, before *keys, r *request, rep *reply) {
	for i, a := range r.of[:r.n] {
		got := rep.of[i]
		switch {
		case r.verb == leave && got.status == heldBy && before.holds[a.ticket] < 0 && !s.truth.flushed:
			x.broken(6, "%s left and was told that it had held", ticketName(a.ticket))
		case r.verb == leave:
		case (got.status == gone || got.status == wasForced) && !s.truth.left[a.ticket]:
			x.broken(8, "%s is gone, though it never left", ticketName(a.ticket))
		case got.status == granted && s.srv.holds[a.ticket] <= 0:
			x.broken(1, "%s was told that it holds, and does not", ticketName(a.ticket))
		case got.status == waits && s.truth.left[a.ticket]:
			x.broken(8, "%s is in line, though it has left", ticketName(a.ticket))
		// Of a hold that ends in this millisecond the record is still there.
		case r.verb == try && got.status == taken && before.owner == nobody && before.gather <= 0 && before.length == 0 && s.srv.owner == nobody:
			x.broken(4, "%s was turned away, and nobody has the lock", ticketName(a.ticket))
		case got.status == waits && a.place != 0 && got.place != a.place:
			x.broken(2, "%s came back and got another place", ticketName(a.ticket))
		}
	}
	if r.verb == force && rep.done && r.token != before.token {
		x.broken(8, "force ended another ownership than it named")
	}
}

// judgeFree: no script leaves the lock free while a waiter is alive and reachable, unless the reply
// asks the client to call again.
func (x *explorer) judgeFree(s *state, r *request, rep *reply) {
	k := &s.srv
	if k.gather > 0 && !s.truth.flushed {
		x.broken(4, "the lock is kept for those who lost their places, though nothing was lost")
	}
	if k.held() || k.gather > 0 || rep.more {
		return
	}
	switch r.verb {
	case enter:
		if rep.remaining == 0 && (rep.of[0].status == waits || rep.of[1].status == waits) {
			x.broken(4, "nobody has the lock after %s", r)
		}
	case leave, force:
		for i := range int8(tickets) {
			if (r.verb == leave || rep.done) && x.due(s, k, r, i) {
				x.broken(4, "%s left the lock free while %s waits", r, ticketName(i))
			}
		}
	default:
	}
}

// ownerOf returns the owner that a record names when the ticket holds the lock.
func (x *explorer) ownerOf(ticket int8) int8 {
	if x.server.sagas&(1<<ticket) != 0 {
		return saga
	}
	return itself + ticket
}

// trusts reports whether a live client believes that the ticket holds the lock: the context of its
// Lease has not ended. After its client was closed, nobody ends that context any more.
func (s *state) trusts(ticket int8) bool {
	a := s.attempt(ticket)
	c := &s.clients[clientOf(ticket)]
	h := s.holdOf(ticket)
	return c.alive && (a.phase == held || a.phase == releasing) && h.State == rules.Held && (c.closed || h.Live(now))
}

// check judges a state by itself.
func (x *explorer) check(s *state) {
	for i := range int8(tickets) {
		x.checkEnd(s, i)
	}
	excused := func(i int8) bool {
		// Force breaks invariant 1 by design, for the time of one message. For orphans see section
		// 5 of docs/safety.md.
		i = s.holder(i)
		return s.truth.forced[i] != 0 || s.truth.orphan[i]
	}
	for i := range int8(tickets) {
		for j := i + 1; j < tickets; j++ {
			if s.trusts(i) && s.trusts(j) && x.ownerOf(i) != x.ownerOf(j) && !excused(i) && !excused(j) {
				x.broken(1, "%s and %s trust the lock at once", ticketName(i), ticketName(j))
			}
		}
	}
}

// checkEnd: a call that has ended leaves nothing behind. Its ticket neither waits nor holds, unless
// something that will take the ticket back is still on its way.
func (x *explorer) checkEnd(s *state, t int8) {
	k, a := &s.srv, s.attempt(t)
	if !s.clients[clientOf(t)].alive || a.phase != finished && !a.gone || s.truth.silent[t] {
		return
	}
	waits := k.waits[t] > 0 && k.lines(t)
	if (waits || k.holds[t] > 0) && !s.mentioned(t) {
		x.broken(7, "the call of %s has ended, and its ticket is still there", ticketName(t))
	}
}
