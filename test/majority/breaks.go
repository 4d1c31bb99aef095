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
		w.truth.harm |= untimely
		if v.data != all {
			w.forgotten(v.node)
		}
		heard := n.heard
		for c := range int8(most) {
			w.deafen(c, v.node)
		}
		if n.restart(v.data); w.quick {
			n.heard = heard
		}
	case flushes:
		b.flushes--
		w.truth.harm |= untimely
		w.forgotten(v.node)
		n.flush()
	case floods:
		b.floods--
		w.truth.harm |= untimely
		for i := range int8(masters) {
			w.forgotten(i)
			w.nodes[i].flush()
		}
	case forgets:
		b.amnesias--
		w.truth.harm |= untimely | unclean
		w.truth.robbed = w.truth.robbed || !w.safe()
		w.notOut(v.node)
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
	case evicting:
		b.evictions--
		w.evicts(v.call)
	}
}

// forgotten notes that a node has lost its data.
func (w *world) forgotten(i int8) {
	w.truth.lost[i] = true
	w.notOut(i)
}

// notOut notes that a node does not know any more whom it has taken out.
func (w *world) notOut(i int8) {
	for c := range w.truth.out {
		w.truth.out[c] &^= 1 << i
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

// evictable reports whether an administrator's Evict finds the call in a line, and takes it out. A
// second one stands for what Evict does again until the call has given its votes back.
func (w *world) evictable(c int8) bool {
	votes, there, stands, known := 0, 0, false, false
	for i := range w.nodes {
		n := &w.nodes[i]
		if w.down[i] != up {
			continue
		}
		there++
		if n.holder == c {
			votes++
			known = known || n.decided
		}
		stands = stands || n.places[c] != 0
	}
	has := votes >= need || known && votes+masters-there >= need
	return there >= need && stands && (!has || !known && w.truth.evicted[c])
}

// evicts has the nodes take a call out of their lines.
func (w *world) evicts(c int8) {
	w.truth.evicted[c] = true
	for i := range int8(masters) {
		w.send(msg{what: evictions, call: c, node: i})
	}
}
