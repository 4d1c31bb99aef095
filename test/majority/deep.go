package majority

import (
	"hash/maphash"
	"slices"
	"time"
)

// prober searches a scenario in depth: it keeps a number for each state that it has seen, and the
// states of one history. Two of a hundred million states have one number with a chance of 1 in
// 4,000.
type prober struct {
	*scenario
	seed   maphash.Seed
	known  map[uint64]struct{}
	onPath map[uint64]struct{}
	path   []frame
	result
}

// frame is a state of the history that is being searched, and the moves that are left to try.
type frame struct {
	*state
	number uint64
	moves  []move
	next   int
}

// prove visits every state that can be reached, up to the first fault. No history leads in a
// circle, or the search says so: all that is optional is used up.
func prove(sc *scenario) *result {
	x := &prober{scenario: sc, seed: maphash.MakeSeed(), known: make(map[uint64]struct{}), onPath: make(map[uint64]struct{})}
	began := time.Now()
	x.enter(sc.start())
	for len(x.path) > 0 && x.fault == nil && (sc.most == 0 || len(x.known) < sc.most) {
		f := &x.path[len(x.path)-1]
		if f.next == len(f.moves) {
			delete(x.onPath, f.number)
			x.path[len(x.path)-1] = frame{}
			x.path = x.path[:len(x.path)-1]
			continue
		}
		f.next++
		x.transitions++
		t := f.clone()
		w := &world{scenario: sc, state: &t}
		if w.apply(f.moves[f.next-1]); w.fault != nil {
			x.fails(w.fault)
			break
		}
		x.enter(&t)
	}
	x.states, x.took = len(x.known), time.Since(began)
	x.cut = x.fault == nil && len(x.path) > 0
	return &x.result
}

// enter looks at a state, and goes on from there if it is new.
func (x *prober) enter(s *state) {
	var room [2048]byte
	number := maphash.Bytes(x.seed, s.code(room[:0]))
	if _, ok := x.known[number]; ok {
		if _, ok := x.onPath[number]; ok {
			x.fails(errCircle)
		}
		return
	}
	x.known[number], x.onPath[number] = struct{}{}, struct{}{}
	w := &world{scenario: x.scenario, state: s}
	all := w.moves(nil)
	if len(all) == 0 {
		x.ends++
		t := s.clone()
		w.state = &t
		if w.rests(); w.fault != nil {
			x.fails(w.fault)
			return
		}
		w.state = s
	}
	x.path = append(x.path, frame{s, number, slices.Clip(w.chances(all)), 0})
	x.depth = max(x.depth, len(x.path)-1)
}

// fails notes a fault, and how it came to be.
func (x *prober) fails(err error) {
	x.fault = err
	for _, f := range x.path {
		if f.next > 0 {
			x.history = append(x.history, (&world{scenario: x.scenario, state: f.state}).describe(f.moves[f.next-1]))
		}
	}
}
