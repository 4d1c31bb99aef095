package majority

import "github.com/fairlock/locks/internal/rules"

// move is one thing that may happen next.
type move struct {
	what doing
	call int8
	node int8
	i    int16 // in air or pushes
	data data
	slow bool // arrives: the answer is on its way for a while
}

type doing int8

const (
	// What happens sooner or later, in any order.
	begins  doing = iota
	arrives       // a request is executed, or an answer is taken in
	fails         // a request to a node that does not answer ends at its client
	hears         // a message
	subscribes
	probes // a node that was away answers
	unlocks
	goesOn // a node that hung
	looks  // the timers of a waiting call go off
	tends  // those of a hold

	// What may happen.
	optional
	givesUp
	timesOut // a try that stood in line for a moment
	dies     // with its process
	loses    // a request
	swallows // an answer
	delays   // a request is executed, but later than its client waits for
	deafens  // a subscription breaks
	restarts
	flushes
	floods  // all nodes are flushed
	forgets // a node loses the keys of the lock, and does not know
	hanging
	downs
	forcing
	evicting
	renewal // although nothing is due
	ticks
)

// moves lists what may happen next: first what happens sooner or later.
func (w *world) moves(to []move) []move {
	for c := range int8(most) {
		to = w.callMoves(to, c)
	}
	for i := range w.air {
		to = w.airMoves(to, &w.air[i], int16(i))
	}
	var seen [masters][most]bool
	for i := range w.pushes {
		p := &w.pushes[i]
		if !seen[p.node][p.call] {
			seen[p.node][p.call] = true
			to = append(to, move{what: hears, call: p.call, node: p.node, i: int16(i)})
		}
	}
	for i := range int8(masters) {
		if w.down[i] == hangs {
			to = append(to, move{what: goesOn, node: i})
		}
	}
	return to
}

// callMoves are those of one call.
func (w *world) callMoves(to []move, c int8) []move {
	k := &w.calls[c]
	switch k.stage {
	case absent, over, killed:
		return to
	case idle:
		if before := w.calls[max(c-1, 0)].stage; c > 0 && w.inTurn && before != over && before != killed {
			return to
		}
		return append(to, move{what: begins, call: c})
	case waiting:
		if !k.looked {
			to = append(to, move{what: looks, call: c})
		}
	case holding:
		if w.hasEnded(c) || !k.tended && !k.renewing && !k.hold.RenewAt.After(w.time()) {
			to = append(to, move{what: tends, call: c})
		}
		if k.hold.Live(w.time()) {
			to = append(to, move{what: unlocks, call: c})
		}
	case leaving:
	}
	for i := range int8(masters) {
		if w.down[i] != up || w.cuts[c]>>i&1 == 1 {
			continue
		}
		if k.listens && !w.nodes[i].heard[c] {
			to = append(to, move{what: subscribes, call: c, node: i})
		}
		if k.away[i] {
			to = append(to, move{what: probes, call: c, node: i})
		}
	}
	return to
}

func (w *world) hasEnded(c int8) bool {
	k := &w.calls[c]
	return k.hold.State == rules.Held && k.hold.TrustOver(w.time())
}

// airMoves are those of one request or answer.
func (w *world) airMoves(to []move, m *msg, i int16) []move {
	v := move{what: arrives, call: m.call, node: m.node, i: i}
	awaited := !m.orphan && m.what != leaves && !m.admins()
	switch {
	case m.what > requests:
		to = append(to, v)
	case w.cuts[m.call]>>m.node&1 == 1 && !m.admins():
		v.what = fails
		to = append(to, v)
	case w.down[m.node] == up:
		if w.budget.slow >= 0 || !awaited {
			to = append(to, v)
		}
		if w.budget.slow != 0 && awaited {
			v.slow = true
			to = append(to, v)
		}
	case awaited, m.what == leaves && !m.orphan && w.down[m.node] == dead: // a leave is sent again and again
		v.what = fails
		to = append(to, v)
	}
	return to
}

// chances lists what may happen, and need not.
func (w *world) chances(to []move) []move {
	b := &w.budget
	for c := range int8(most) {
		k := &w.calls[c]
		if k.stage == waiting && b.giveUps > 0 {
			to = append(to, move{what: givesUp, call: c})
		}
		if k.stage == waiting && k.split {
			to = append(to, move{what: timesOut, call: c})
		}
		if k.stage == holding && b.renewals > 0 && !k.renewing && k.hold.Live(w.time()) {
			to = append(to, move{what: renewal, call: c})
		}
	}
	if b.ticks > 0 {
		to = append(to, move{what: ticks})
	}
	if b.faults == 0 {
		return to
	}
	if b.forces > 0 {
		to = append(to, move{what: forcing})
	}
	if b.floods > 0 {
		to = append(to, move{what: floods})
	}
	for c := range int8(most) {
		if b.evictions > 0 && w.evictable(c) {
			to = append(to, move{what: evicting, call: c})
		}
		if k := &w.calls[c]; b.kills > 0 && (k.stage == waiting || k.stage == holding) {
			to = append(to, move{what: dies, call: c})
		}
	}
	to = w.nodeChances(to)
	for i := range w.air {
		m := &w.air[i]
		v := move{call: m.call, node: m.node, i: int16(i)}
		if m.orphan || w.down[m.node] != up || w.calls[m.call].stage == killed {
			continue
		}
		if v.what = loses; b.lost > 0 && m.what < requests && !m.admins() {
			to = append(to, v)
		}
		if v.what = swallows; b.lost > 0 && m.what > requests {
			to = append(to, v)
		}
		if v.what = delays; b.late > 0 && m.what < requests && !m.admins() {
			to = append(to, v)
		}
	}
	return to
}

// nodeChances are the faults of nodes.
func (w *world) nodeChances(to []move) []move {
	b := &w.budget
	for i := range int8(masters) {
		if w.down[i] != up {
			continue
		}
		for d, n := range [...]int8{none: b.restarts, yesterdays: b.yesterdays, all: b.intact} {
			if n > 0 {
				to = append(to, move{what: restarts, node: i, data: data(d)})
			}
		}
		if b.flushes > 0 {
			to = append(to, move{what: flushes, node: i})
		}
		if b.amnesias > 0 {
			to = append(to, move{what: forgets, node: i})
		}
		if b.hangs > 0 {
			to = append(to, move{what: hanging, node: i})
		}
		if b.deaths > 0 {
			to = append(to, move{what: downs, node: i})
		}
		for c := range int8(most) {
			if b.deaf > 0 && w.nodes[i].heard[c] && w.calls[c].stage == waiting {
				to = append(to, move{what: deafens, call: c, node: i})
			}
		}
	}
	return to
}
