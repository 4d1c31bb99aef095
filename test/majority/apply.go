package majority

import (
	"cmp"
	"slices"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/rules"
)

// step is one step of time: two of them end the trust in a vote, and three end the vote.
const step = 1450

// world is a state to which something happens.
type world struct {
	*scenario
	*state
	owned   [most]bool       // the Ballots that are no other state's
	ballots []*ballot.Ballot // that no state has any more
	fault   error
	exact   bool // nothing is forgotten because it cannot matter
}

// apply makes a move.
func (w *world) apply(v move) {
	w.owned = [most]bool{}
	k := &w.calls[v.call]
	switch v.what {
	case begins:
		w.begins(v.call)
	case arrives:
		w.arrives(int(v.i), v.slow)
	case fails:
		m := &w.air[v.i]
		m.orphan = true
		if w.down[v.node] == dead || w.cuts[v.call]>>v.node&1 == 1 {
			w.unanswered(w.takeOut(int(v.i)))
		} else {
			c := *m
			w.unanswered(&c)
		}
	case hears:
		p := w.pushes[v.i]
		w.pushes = slices.Delete(w.pushes, int(v.i), int(v.i)+1)
		w.hear(&p)
	case subscribes:
		w.up(v.call, v.node)
	case probes:
		w.returned(v.call, v.node)
	case unlocks:
		w.unlocks(v.call)
	case goesOn:
		w.down[v.node] = up
	case looks:
		w.looks(v.call)
	case tends:
		k.tended = true
		if w.hasEnded(v.call) {
			w.lose(v.call, rules.Expired)
		} else {
			w.renewsAll(v.call)
		}
	default:
		w.chance(v)
	}
	w.normalise()
	w.check()
	if !w.exact {
		w.forget()
	}
}

// chance makes a move that need not happen.
func (w *world) chance(v move) {
	b := &w.budget
	switch v.what {
	case givesUp:
		b.giveUps--
		w.settle(v.call, gaveUp)
	case timesOut:
		w.settle(v.call, timeUp)
	case renewal:
		b.renewals--
		w.renewsAll(v.call)
	case ticks:
		b.ticks--
		w.tick(cmp.Or(w.step, step))
	default:
		b.faults--
		w.breaks(v)
	}
}

// takeOut takes a message out of the air.
func (w *world) takeOut(i int) *msg {
	m := w.air[i]
	w.air = slices.Delete(w.air, i, i+1)
	return &m
}

// arrives has a request executed, or an answer taken in.
func (w *world) arrives(i int, slow bool) {
	m := w.takeOut(i)
	if m.what < requests {
		w.execute(m, slow)
		return
	}
	w.takeIn(m)
}

// takeIn has a client take in an answer.
func (w *world) takeIn(m *msg) {
	switch m.what {
	case answersEnter:
		w.answered(m)
	case answersBeat:
		w.beaten(m)
	case answersTell, answersRenew:
		w.renewAnswered(m)
	}
}

// execute runs a script. Its answer is taken in at once, unless it is slow.
func (w *world) execute(m *msg, slow bool) {
	n, r := &w.nodes[m.node], &request{me: m.call, now: w.now, broken: w.broken}
	w.truth.asked |= 1 << m.call
	bound := w.programs[m.call].bound
	if w.calls[m.call].split {
		bound = 0
	}
	reply := *m
	switch m.what {
	case enters:
		reply.what, reply.answer = answersEnter, n.enter(r, m.call, m.place, int64(bound), m.back)
	case beats:
		reply.what, reply.answer = answersBeat, n.beat(r, m.call)
	case tells:
		reply.what, reply.answer.left = answersTell, n.renew(r, m.call, m.token, 0, m.place, false)
	case renews:
		reply.what, reply.answer.left = answersRenew, n.renew(r, m.call, m.token, claim, m.place, true)
	case leaves, forcedLeaves, evictions:
		w.leaves(r, m)
	}

	for _, p := range r.told {
		p.node = m.node
		w.pushes = append(w.pushes, p)
	}
	for w.budget.lag == 0 && len(w.pushes) > 0 {
		p := w.pushes[0]
		w.pushes = slices.Delete(w.pushes, 0, 1)
		w.hear(&p)
	}
	switch {
	case reply.what < requests || m.orphan:
	case slow:
		if w.budget.slow > 0 {
			w.budget.slow--
		}
		w.air = append(w.air, reply)
	default:
		w.takeIn(&reply)
	}
}

// leaves executes a leave, also one that an administrator sent.
func (w *world) leaves(r *request, m *msg) {
	n, by := &w.nodes[m.node], m.by()
	if by != itself {
		r.me = nobody
	}
	was := n.leave(r, m.call, m.token, m.late, by)
	if by != itself && was != neither && !n.hears(m.call) {
		w.truth.untold[m.call] = true
	}
	if by == eviction && was != neither {
		w.truth.told[m.call] = true
	}
	if by == eviction && was != hadIt && !w.truth.lost[m.node] {
		w.truth.out[m.call] |= 1 << m.node
	}
	if by == itself && !m.orphan {
		w.left(m.call, m.node, was)
	}
	if m.back > 0 { // a mutation
		w.send(msg{what: enters, call: m.call, node: m.node, place: m.place})
	}
}

// looks is Locker.look, for one call.
func (w *world) looks(c int8) {
	k := w.own(c)
	k.looked = true
	k.Expire(w.time())
	w.judge(c)
	for i := range int8(masters) {
		w.beat(c, i)
	}
}

// tick lets time pass, for all clocks.
func (w *world) tick(by int64) {
	w.now += by
	w.truth.harm |= unordered | untimely | unclean
	for c := range w.calls {
		w.calls[c].looked, w.calls[c].tended = false, false
	}
	for i := range w.nodes {
		w.nodes[i].expire(&request{now: w.now})
	}
}
