package majority

import (
	"hash/maphash"
	"time"
)

// prober searches a scenario in depth: it keeps a number for each state that it has seen, and the
// states of one history. Two of a hundred million states have one number with a chance of 1 in
// 4,000.
type prober struct {
	w      world
	seed   maphash.Seed
	known  visited
	onPath map[uint64]struct{}
	path   []*frame
	spare  []*frame
	result
}

// frame is a state of the history that is being searched, and the moves that are left to try.
type frame struct {
	state
	owned  [most]bool // its Ballots that no other state has
	number uint64
	moves  []move
	next   int
}

// prove visits every state that can be reached, up to the first fault. No history leads in a
// circle, or the search says so: all that is optional is used up.
func prove(sc *scenario) *result {
	x := &prober{w: world{scenario: sc}, seed: maphash.MakeSeed(), onPath: make(map[uint64]struct{})}
	began := time.Now()
	x.enter(&frame{state: *sc.start()})
	for len(x.path) > 0 && x.fault == nil && (sc.most == 0 || x.known.count < sc.most) {
		f := x.path[len(x.path)-1]
		if f.next == len(f.moves) {
			delete(x.onPath, f.number)
			x.path = x.path[:len(x.path)-1]
			x.drop(f)
			continue
		}
		f.next++
		x.transitions++
		t := x.frame()
		f.copy(&t.state)
		x.w.state = &t.state
		x.w.apply(f.moves[f.next-1])
		if t.owned = x.w.owned; x.w.fault != nil {
			x.fails(x.w.fault)
			break
		}
		x.enter(t)
	}
	x.states, x.took = x.known.count, time.Since(began)
	x.cut = x.fault == nil && len(x.path) > 0
	return &x.result
}

// frame is one that is not in use.
func (x *prober) frame() *frame {
	if f := pop(&x.spare); f != nil {
		return f
	}
	return new(frame)
}

// pop takes the last one out; nil: there is none.
func pop[T any](from *[]*T) (last *T) {
	if n := len(*from) - 1; n >= 0 {
		last, *from = (*from)[n], (*from)[:n]
	}
	return last
}

// drop takes back a frame and the Ballots that only it has.
func (x *prober) drop(f *frame) {
	for c, owned := range f.owned {
		if owned {
			x.w.ballots = append(x.w.ballots, f.calls[c].Ballot)
		}
	}
	x.spare = append(x.spare, f)
}

// enter looks at a state, and goes on from there if it is new.
func (x *prober) enter(f *frame) {
	f.number = f.hash(x.seed)
	if !x.known.add(f.number) {
		if _, ok := x.onPath[f.number]; ok {
			x.fails(errCircle)
		}
		x.drop(f)
		return
	}
	x.onPath[f.number] = struct{}{}
	x.w.state = &f.state
	f.moves, f.next = x.w.moves(f.moves[:0]), 0
	if len(f.moves) == 0 {
		x.ends++
		w := &world{scenario: x.w.scenario, state: f.clone()}
		if w.rests(); w.fault != nil {
			x.fails(w.fault)
			return
		}
	}
	f.moves = x.w.chances(f.moves)
	x.path = append(x.path, f)
	x.depth = max(x.depth, len(x.path)-1)
}

// fails notes a fault, and how it came to be.
func (x *prober) fails(err error) {
	x.fault = err
	for _, f := range x.path {
		if f.next > 0 {
			x.history = append(x.history, (&world{scenario: x.w.scenario, state: &f.state}).describe(f.moves[f.next-1]))
		}
	}
}

// visited is a set of states' numbers. It takes 9 to 19 bytes for each.
type visited struct {
	parts [256]part
	count int
}

// part has the numbers that begin alike, each at the first free slot from where its end points to.
type part struct {
	slots []uint64 // 0: free
	used  int
}

// add puts a number in, and reports whether it is new.
func (s *visited) add(n uint64) bool {
	n = max(n, 1)
	p := &s.parts[n>>56]
	if p.used >= len(p.slots)/10*9 {
		p.grow()
	}
	if !p.add(n) {
		return false
	}
	s.count++
	return true
}

func (p *part) add(n uint64) bool {
	for i := n & uint64(len(p.slots)-1); ; i = (i + 1) & uint64(len(p.slots)-1) {
		switch p.slots[i] {
		case n:
			return false
		case 0:
			p.slots[i] = n
			p.used++
			return true
		}
	}
}

func (p *part) grow() {
	old := p.slots
	p.slots, p.used = make([]uint64, max(64, 2*len(old))), 0
	for _, n := range old {
		if n != 0 {
			p.add(n)
		}
	}
}
