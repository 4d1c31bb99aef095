package majority

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"
)

// explorer searches one scenario.
type explorer struct {
	*scenario
	seed   maphash.Seed
	known  map[uint64]int32
	parent []int32
	by     []move

	// The moves that happen sooner or later, by the states that they lead from and to.
	from, to []int32
}

var errCircle = errors.New("livelock: requests without end")

// result is the outcome of a search.
type result struct {
	states, transitions, depth, ends int
	took                             time.Duration
	cut                              bool // not all states were visited
	fault                            error
	history                          []string // the shortest that leads to the fault
}

func (r *result) String() string {
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d ends, %v", r.states, r.transitions, r.depth, r.ends, r.took.Round(time.Millisecond))
}

// search visits every state that can be reached, the near ones first, up to the first fault.
func search(sc *scenario) *result {
	x := &explorer{scenario: sc, known: make(map[uint64]int32), seed: maphash.MakeSeed()}
	r, began := new(result), time.Now()
	s := sc.start()
	x.remember(s, -1, move{})
	level, ids := []*state{s}, []int32{0}
	for ; len(level) > 0 && r.fault == nil && (sc.most == 0 || len(x.parent) < sc.most); r.depth++ {
		var next []*state
		var nextIDs []int32
		for i, s := range level {
			level[i] = nil
			x.expand(s, ids[i], r, func(t *state, id int32) { next, nextIDs = append(next, t), append(nextIDs, id) })
			if r.fault != nil {
				break
			}
		}
		level, ids = next, nextIDs
	}
	if r.fault == nil && len(level) == 0 {
		x.findCircle(r)
	}
	r.states, r.took = len(x.parent), time.Since(began)
	return r
}

// expand makes every move from a state.
func (x *explorer) expand(s *state, id int32, r *result, found func(*state, int32)) {
	w := &world{scenario: x.scenario, state: s}
	must := w.moves(nil)
	if len(must) == 0 {
		r.ends++
		w.state = s.clone()
		if w.rests(); w.fault != nil {
			r.fault, r.history = w.fault, x.history(id)
			return
		}
		w.state = s
	}
	all := w.chances(must)
	for n, v := range all {
		t := s.clone()
		w.state = t
		w.apply(v)
		r.transitions++
		if w.fault != nil {
			r.fault, r.history = w.fault, append(x.history(id), (&world{scenario: x.scenario, state: s}).describe(v))
			return
		}
		to, isNew := x.remember(t, id, v)
		if isNew {
			found(t, to)
		}
		if n < len(must) {
			x.from, x.to = append(x.from, id), append(x.to, to)
		}
	}
}

// remember gives a new state a number.
func (x *explorer) remember(s *state, from int32, by move) (id int32, isNew bool) {
	k := s.hash(x.seed)
	if id, ok := x.known[k]; ok {
		return id, false
	}
	id = int32(len(x.parent))
	x.known[k] = id
	x.parent, x.by = append(x.parent, from), append(x.by, by)
	return id, true
}

// history tells the way to a state.
func (x *explorer) history(id int32) []string {
	var way []move
	for ; x.parent[id] >= 0; id = x.parent[id] {
		way = append(way, x.by[id])
	}
	w := &world{scenario: x.scenario, state: x.start()}
	var told []string
	for _, v := range slices.Backward(way) {
		told = append(told, w.describe(v))
		w.apply(v)
	}
	return told
}

// findCircle looks for moves that happen by themselves and lead back to where they began: then a
// history need not end. It takes away what leads nowhere else, until nothing is left.
func (x *explorer) findCircle(r *result) {
	leads := make([]int32, len(x.parent)) // how many moves lead to a state
	first := make([]int32, len(x.parent)+1)
	for i := range x.from {
		leads[x.to[i]]++
		first[x.from[i]+1] = int32(i) + 1
	}
	for i := 1; i < len(first); i++ {
		first[i] = max(first[i], first[i-1])
	}
	var open []int32
	for id, n := range leads {
		if n == 0 {
			open = append(open, int32(id))
		}
	}
	done := 0
	for ; len(open) > 0; done++ {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		for i := first[id]; i < first[id+1]; i++ {
			if to := x.to[i]; x.from[i] == id {
				if leads[to]--; leads[to] == 0 {
					open = append(open, to)
				}
			}
		}
	}
	if done == len(leads) {
		return
	}
	for id, n := range leads { // one of those that are left is on a circle, or behind one
		if n > 0 {
			r.fault, r.history = errCircle, x.history(int32(id))
			return
		}
	}
}
