package majority

import (
	"math"

	"github.com/fairlock/locks/internal/rules"
)

// forget drops what cannot matter any more, so that states that differ only in that count as one.
// What is dropped here stays as good as dropped: forget_test.go holds this world against one that
// forgets nothing.
func (w *world) forget() {
	soonest, open := w.soonest(), w.open()
	for c := range int8(most) {
		w.forgetCall(c, &soonest)
		for i := range int8(masters) {
			w.forgetAt(i, c, open[i][c])
		}
	}
	for i := range w.air {
		m := &w.air[i]
		w.forgetIn(m, soonest[m.node][m.call], open[m.node][m.call])
	}
}

// traffic is what is under way of one call at one node.
type traffic int8

const (
	quiet   traffic = iota
	matters         // a leave, or a message
	changes         // a request that a mark would stop
)

// open is what is under way, by node and call. Answers do not count.
func (w *world) open() (open [masters][most]traffic) {
	for i := range w.pushes {
		open[w.pushes[i].node][w.pushes[i].call] = matters
	}
	for i := range w.air {
		m := &w.air[i]
		switch at := &open[m.node][m.call]; {
		case m.admins(): // it finds nothing where nothing is, and then tells nobody
		case m.what < leaves, m.what < requests && m.back > 0:
			*at = changes
		case m.what < requests:
			*at = max(*at, matters)
		}
	}
	return open
}

// forgetCall drops what a call knows and does not need. An answer or a message to come has no token
// less than soonest.
func (w *world) forgetCall(c int8, soonest *[masters][most]int64) {
	k := &w.calls[c]
	if k.stage > waiting {
		w.truth.told[c], w.truth.out[c] = false, 0
	}
	switch k.stage {
	case waiting, holding:
		for i := range masters {
			if b := k.Forget(i, soonest[i][c], w.room); b != k.Ballot {
				w.replaces(c, b)
			}
		}
		for other := range w.calls {
			if s := w.calls[other].stage; s != idle && s != waiting { // it is decided, or will never be
				w.truth.ahead[c] &^= 1 << other
			}
		}
	case leaving:
		k.token = 0
		for i := range k.trusted { // unless the node may have forgotten, or somebody judges the release
			if w.keeps(int8(i)) && (w.truth.harm&unclean != 0 || k.hold.State != rules.Releasing) {
				k.trusted[i] = false
			}
		}
	case over, killed:
		*k = call{Ballot: k.Ballot, stage: k.stage, got: k.got, why: k.why, split: k.split}
	case absent, idle:
	}
}

// forgetAt drops what a node keeps of a call and will not look at, or not for how long.
func (w *world) forgetAt(i, c int8, open traffic) {
	n, stage, now := &w.nodes[i], w.calls[c].stage, w.now+w.nodes[i].clock
	if stage > holding && open < changes {
		n.marks[c] = unmarked
	}
	if stage > leaving && open == quiet && n.places[c] == 0 && n.holder != c {
		n.heard[c], n.blind[c] = false, 0
	}
	if n.heard[c] && w.budget.faults == 0 {
		n.blind[c] = 0
	}
	if n.alive[c] > now && w.budget.ticks+w.budget.faults == 0 && w.truth.harm&untimely == 0 {
		n.alive[c] = now + claim // no time passes any more
	}
}

// forgetIn drops what a message says and nobody will ask for.
func (w *world) forgetIn(m *msg, soonest int64, open traffic) {
	switch {
	case m.what > requests:
		m.place, m.back = 0, 0
		return
	case m.what == leaves && m.back > 0: // a mutation: an enter follows
		return
	}
	if m.back < soonest {
		m.back = 0
	}
	if m.what == leaves && (w.down[m.node] == dead || w.keeps(m.node) && m.token <= w.nodes[m.node].last) {
		m.token = min(m.token, 1) // it says that there was one
	}
	m.late = m.late && (open == changes || w.calls[m.call].stage <= holding)
	if m.orphan || m.what == leaves {
		m.sent, m.session, m.vote, m.round = 0, 0, 0, false
	}
}

// soonest is, by node and call, the least token with which an answer or a message of the node may
// come, or which its record of the call may have. It is 0 if the node may forget its tokens.
func (w *world) soonest() (least [masters][most]int64) {
	lower := func(i, c int8, token int64) { least[i][c] = min(least[i][c], token) }
	for i := range w.nodes {
		n := &w.nodes[i]
		if !w.keeps(int8(i)) {
			continue
		}
		for c := range least[i] {
			if least[i][c] = math.MaxInt64; w.down[i] != dead {
				least[i][c] = n.last + 1
			}
		}
		if n.holder != nobody {
			lower(int8(i), n.holder, n.token)
		}
	}
	for i := range w.air {
		if m := &w.air[i]; m.what != enters && m.what != beats {
			lower(m.node, m.call, m.least())
		}
	}
	for i := range w.pushes {
		if p := &w.pushes[i]; p.news != evicts {
			lower(p.node, p.call, p.token)
		}
	}
	if !w.mayRenew() {
		return least
	}
	for c := range int8(most) {
		k, token := &w.calls[c], int64(math.MaxInt64)
		switch k.stage {
		case waiting:
			token = k.Least(func(i int) int64 { return least[i][c] })
		case holding:
			token = k.token
		case absent, idle, leaving, over, killed:
		}
		for i := range int8(masters) {
			lower(i, c, token)
		}
	}
	return least
}

// least is the least token that an answer or a renewal may bring to its call, or to the record.
func (m *msg) least() int64 {
	a := &m.answer
	switch {
	case m.what == tells, m.what == renews, m.what == answersTell, m.what == answersRenew:
		return m.token
	case m.what == answersEnter && a.status == granted, m.what == answersBeat && a.holder == m.call:
		return a.token
	case m.what == answersEnter && a.status != gone:
		return a.token + 1 // it was shown, and not given
	}
	return math.MaxInt64
}

// mayRenew reports whether a renewal may be sent, now or later.
func (w *world) mayRenew() bool {
	return w.allows.renewals+w.allows.ticks+w.allows.faults > 0 || w.hung|w.dead != 0 || w.unmet || w.deaf || w.cuts != [most]uint8{}
}

// keeps reports whether the node has lost nothing, and never will.
func (w *world) keeps(i int8) bool {
	b := &w.budget
	return !w.truth.lost[i] && (b.faults == 0 || b.restarts+b.yesterdays+b.flushes+b.floods+b.amnesias == 0)
}
