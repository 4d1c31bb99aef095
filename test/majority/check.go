package majority

import (
	"fmt"
	"math/bits"
	"slices"
)

func (w *world) violated(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf(format, args...)
	}
}

func label(c int8) string { return owners[c+1] }

// check looks at what must be true at every instant.
func (w *world) check() {
	w.excludes()
	w.heedsEvictions()
	if w.truth.harm&unordered != 0 {
		return
	}
	for a := range int8(most) {
		if k := &w.calls[a]; k.stage == waiting && k.Place > 0 {
			at := 0
			for i := range w.nodes {
				if w.nodes[i].places[a] == int64(k.Place) {
					at++
				}
			}
			if at >= need {
				w.truth.ahead[a] |= ^w.truth.asked & (1<<most - 1)
			}
		}
	}
}

// heedsEvictions looks whether a call waits on that was told of its eviction.
func (w *world) heedsEvictions() {
	for c := range int8(most) {
		if w.calls[c].stage != waiting || !w.truth.told[c] || w.truth.untold[c] ||
			slices.ContainsFunc(w.air, func(m msg) bool { return m.what == evictions && m.call == c }) ||
			slices.ContainsFunc(w.pushes, func(p push) bool { return p.news == evicts && p.call == c }) {
			continue
		}
		w.violated("evict: call %s is told of its eviction, and waits on", label(c))
	}
}

// excludes looks whether two calls trust that they have the lock.
func (w *world) excludes() {
	holder := nobody
	for c := range int8(most) {
		k := &w.calls[c]
		if k.stage != holding || !k.hold.Live(w.time()) || w.truth.forced[c] && w.unheard(c) {
			continue
		}
		if holder != nobody && !w.truth.robbed {
			w.violated("exclusion: calls %s and %s both trust that they have the lock", label(holder), label(c))
		}
		holder = c
	}
}

// unheard reports whether a force of a call is under way, and its client does not know.
func (w *world) unheard(c int8) bool {
	return w.truth.untold[c] || slices.ContainsFunc(w.air, func(m msg) bool { return m.what == forcedLeaves && m.call == c }) ||
		slices.ContainsFunc(w.pushes, func(p push) bool { return p.call == c && (p.news == forces || p.news == evicts) })
}

// safe reports whether a holder has all votes, so that one node alone cannot rob it.
func (w *world) safe() bool {
	for c := range int8(most) {
		k, has := &w.calls[c], 0
		for i := range w.nodes {
			if w.nodes[i].holder == c && k.stage == holding && k.Has(i, w.time()) {
				has++
			}
		}
		if has == masters {
			return true
		}
	}
	return false
}

// decided judges a call that has a majority now.
func (w *world) decided(c int8, token int64) {
	excused := w.allows.amnesias > w.budget.amnesias || w.truth.forced[c] && w.unheard(c)
	if w.excludes(); token <= w.truth.token && !excused {
		w.violated("tokens: call %s has token %d after %d", label(c), token-begin*1000, w.truth.token-begin*1000)
	}
	w.truth.token = max(w.truth.token, token)
	if bits.OnesCount8(w.truth.out[c]) >= need && (!w.truth.forced[c] || !w.unheard(c)) {
		w.violated("evict: call %s gets the lock though a majority has taken it out", label(c))
	}
	if w.truth.harm&unordered != 0 {
		return
	}
	for a := range int8(most) {
		if w.calls[a].stage == waiting && w.truth.ahead[a]>>c&1 == 1 {
			w.violated("order: call %s, which began when call %s had its place at a majority, is first", label(c), label(a))
		}
	}
}

// rests judges a state in which nothing happens any more by itself.
func (w *world) rests() {
	if w.truth.harm&untimely != 0 {
		w.drain()
		return
	}
	for c := range int8(most) {
		k := &w.calls[c]
		switch {
		case k.stage == absent, k.stage == over && k.got:
		case k.stage != over:
			w.violated("stuck: call %s waits, and nothing happens without a timer", label(c))
		case k.why == refused && w.programs[c].bound < 0, k.why == filled && w.programs[c].bound > 0, k.why == gaveUp, k.why == timeUp,
			k.why == failed && (w.truth.forced[c] || w.truth.evicted[c] || w.programs[c].bound < 0 && w.truth.harm&unordered != 0):
		default:
			w.violated("call %s ended without the lock and without a reason", label(c))
		}
	}
	if n := w.unclean(true); n != "" {
		w.violated("left behind: %s", n)
	}
	w.someTrySucceeds()
}

// someTrySucceeds: of several tries on a free lock, one has it.
func (w *world) someTrySucceeds() {
	for c := range w.calls {
		if k := &w.calls[c]; k.stage != absent && (k.got || w.programs[c].bound >= 0 || k.why == gaveUp || k.why == timeUp) {
			return
		}
	}
	if w.truth.harm == 0 {
		w.violated("of the tries on a free lock, none had it")
	}
}

// unclean is what is left at a node. strictly says that what ends by itself counts.
func (w *world) unclean(strictly bool) string {
	for i := range w.nodes {
		n := &w.nodes[i]
		if w.down[i] != up {
			continue
		}
		if n.holder != nobody && (strictly || n.ends > w.now+n.clock) {
			return fmt.Sprintf("a vote for call %s at node %d", label(n.holder), i+1)
		}
		for c := range int8(most) {
			if n.places[c] != 0 && w.calls[c].stage != waiting && (strictly || n.alive[c] > w.now+n.clock) {
				return fmt.Sprintf("call %s in line at node %d", label(c), i+1)
			}
		}
	}
	return ""
}

// How much may happen until all is over once no more faults do.
const (
	mostMoves = 300 // without a timer
	mostTicks = 14
)

// drain lets everything happen that happens by itself, and time pass where nothing does, until all
// calls have ended and nothing is left.
func (w *world) drain() {
	var list []move
	for tick := 0; w.fault == nil; tick++ {
		for n := 0; w.fault == nil; n++ {
			if list = w.moves(list[:0]); len(list) == 0 {
				break
			}
			if n > mostMoves {
				w.violated("livelock: requests without end, as %s", w.describe(list[0]))
			}
			w.apply(list[0])
		}
		waits := nobody
		for c := range int8(most) {
			if s := w.calls[c].stage; s != absent && s != over && s != killed && bits.OnesCount8(w.cuts[c]) < need {
				waits = c
			}
		}
		left := w.unclean(false)
		switch {
		case waits == nobody && left == "":
			return
		case tick > mostTicks && waits != nobody:
			w.violated("stuck: call %s waits for ever", label(waits))
		case tick > mostTicks:
			w.violated("left behind: %s", left)
		}
		w.tick(step)
	}
}
