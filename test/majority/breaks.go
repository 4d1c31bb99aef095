package majority

import "slices"

// breaks does one of the faults.
func (w *world) breaks(v move) {
	b, n := &w.budget, &w.nodes[v.node]
	w.truth.harm |= unordered
	switch v.what {
	case dies:
		b.kills--
		w.dies(v.call)
	case loses, swallows, delays:
		w.network(v)
	case deafens:
		b.deaf--
		w.truth.harm |= untimely
		w.deafen(v.call, v.node)
	case restarts:
		*[...]*int8{none: &b.restarts, yesterdays: &b.yesterdays, all: &b.intact}[v.data]--
		w.truth.harm |= untimely | unclean
		w.truth.lost[v.node] = w.truth.lost[v.node] || v.data != all
		heard := n.heard
		for c := range int8(most) {
			w.deafen(c, v.node)
		}
		if n.restart(v.data); w.quick {
			n.heard = heard
		}
	case flushes:
		b.flushes--
		w.truth.harm |= untimely | unclean
		w.truth.lost[v.node] = true
		n.flush()
	case floods:
		b.floods--
		w.truth.harm |= untimely | unclean
		for i := range w.nodes {
			w.truth.lost[i] = true
			w.nodes[i].flush()
		}
	case forgets:
		b.amnesias--
		w.truth.harm |= untimely | unclean
		w.truth.robbed = w.truth.robbed || !w.safe()
		kept, from := n.kept, n.from
		n.flush()
		n.kept, n.from = kept, from
	case hanging:
		b.hangs--
		w.down[v.node] = hangs
	case downs:
		b.deaths--
		w.downs(v.node)
	case forcing:
		b.forces--
		w.forces()
	}
}

// network loses a request or an answer, or makes a request late.
func (w *world) network(v move) {
	w.truth.harm |= untimely | unclean
	m := w.air[v.i]
	if v.what == delays {
		w.budget.late--
		w.air[v.i].orphan = true
	} else {
		w.budget.lost--
		w.takeOut(int(v.i))
	}
	w.unanswered(&m)
	if m.what == leaves { // it is sent again
		m.orphan = false
		w.send(m)
	}
}

// deafen breaks a subscription, with what is on its way.
func (w *world) deafen(c, i int8) {
	if w.nodes[i].heard[c] {
		w.nodes[i].heard[c] = false
		w.calls[c].listens = true
	}
	w.pushes = slices.DeleteFunc(w.pushes, func(p push) bool {
		lost := p.node == i && p.call == c
		w.truth.untold[c] = w.truth.untold[c] || lost && (p.news == forces || p.news == evicts)
		return lost
	})
}

// dies ends a client without a word.
func (w *world) dies(c int8) {
	w.truth.harm |= untimely
	for i := range int8(masters) {
		w.deafen(c, i)
	}
	w.calls[c] = call{stage: killed, Ballot: w.calls[c].Ballot, got: w.calls[c].got}
	w.truth.ahead[c] = 0
	w.air = slices.DeleteFunc(w.air, func(m msg) bool { return m.call == c && m.what > requests })
	for i := range w.air {
		if m := &w.air[i]; m.call == c {
			m.orphan = true
		}
	}
}

// downs ends a node for good.
func (w *world) downs(i int8) {
	w.down[i] = dead
	for _, p := range w.programs {
		if p.bound > 0 { // it may believe that it stands in line there
			w.truth.harm |= untimely
		}
	}
	for c := range int8(most) {
		w.deafen(c, i)
	}
	w.air = slices.DeleteFunc(w.air, func(m msg) bool { return m.node == i && m.orphan })
	w.nodes[i] = node{holder: nobody}
}

// forces is an administrator's ForceUnlock: it looks at all nodes at once, and then ends what it
// saw.
func (w *world) forces() {
	var votes [most]int
	for i := range w.nodes {
		if h := w.nodes[i].holder; h != nobody && w.down[i] == up {
			votes[h]++
		}
	}
	c := slices.IndexFunc(votes[:], func(n int) bool { return n >= need })
	if c < 0 {
		return // ErrNotHeld
	}
	w.truth.forced[c] = true
	w.truth.harm |= unclean
	for i := range int8(masters) {
		w.send(msg{what: forcedLeaves, call: int8(c), node: i, late: true})
	}
}
