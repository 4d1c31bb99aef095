package explore

import (
	"hash/maphash"
	"strings"
	"time"
)

// program is what a client does with its tickets.
type program struct {
	tickets  int8
	tries    bool // the client does not wait
	cancels  bool // the client may give up waiting
	parallel bool // one ticket may begin before the other has finished
	lingers  bool // there is time between the grant and the Lease
}

// scenario is a world to search.
type scenario struct {
	name     string
	programs [clients]program
	budget   budget
	sagas    uint8       // the tickets with the explicit owner, one bit each
	behind   bool        // the server's clock was set back: it is behind every token
	deaf     bool        // nobody has a subscription yet
	most     int         // how many states to search; 0: all
	over     func() bool // reports whether the search may end; nil: it may not
}

// explorer searches one scenario.
type explorer struct {
	scenario
	server     *server
	symmetries [][clients]int8
	alike      [clients][clients]bool
	fault      *fault
	trail      *[]string // what was executed, while a history is told
	longest    ms        // the longest wait until all were served

	seeds   [2]maphash.Seed
	work    work
	known   map[key]int32
	parent  []int32
	keyed   []key
	drained map[key]struct{}
}

type key [2]uint64

// result is the outcome of a search.
type result struct {
	states, transitions, depth int
	made                       map[string]int // moves, by kind
	took                       time.Duration
	fault                      *fault
	history                    []string // the shortest history that leads to the fault
}

// search visits every state that can be reached, the near ones first, up to the first fault.
func search(sv *server, sc scenario) result {
	began := time.Now()
	x := newExplorer(sv, sc)
	r := result{made: make(map[string]int)}
	var made [elapses + 1][twice + 1]int
	first := x.start()
	x.remember(first.encode(nil), -1)
	level, ids := new(pile), []int32{0}
	level.add(&first)
	next, nextIDs := new(pile), []int32(nil)
	var moves []move
	s := new(state)
	for ; level.size > 0 && r.fault == nil; r.depth++ {
		next.size, nextIDs = 0, nextIDs[:0]
		for i := range level.size {
			from := level.at(i)
			moves = x.moves(from, moves[:0])
			for _, m := range moves {
				*s = *from
				r.transitions++
				made[m.what][m.mode]++
				if x.step(s, m); x.fault == nil {
					if id, isNew := x.remember(x.rename(s), ids[i]); isNew {
						x.drain(s)
						next.add(s)
						nextIDs = append(nextIDs, id)
					}
				}
				if x.fault != nil {
					r.fault = x.fault
					r.history = x.history(ids[i], r.fault)
					break
				}
			}
			if r.fault != nil || x.enough() {
				break
			}
		}
		level, next, ids, nextIDs = next, level, nextIDs, ids
		if x.enough() {
			break
		}
	}
	for w := range made {
		for m, n := range made[w] {
			if n > 0 {
				r.made[what(w).String()+mode(m).String()] += n
			}
		}
	}
	r.states, r.took = len(x.parent), time.Since(began)
	return r
}

// pile is a list of states. They stay where they are while it grows.
type pile struct {
	pages [][]state
	size  int
}

const page = 128

func (p *pile) at(i int) *state { return &p.pages[i/page][i%page] }

func (p *pile) add(s *state) {
	if p.size == page*len(p.pages) {
		p.pages = append(p.pages, make([]state, page))
	}
	p.size++
	*p.at(p.size - 1) = *s
}

// enough reports whether the search may end before it has visited all states.
func (x *explorer) enough() bool {
	return x.most > 0 && len(x.parent) >= x.most || x.over != nil && x.over()
}

func newExplorer(sv *server, sc scenario) *explorer {
	x := &explorer{scenario: sc, server: sv.as(sc), known: make(map[key]int32), drained: make(map[key]struct{})}
	x.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	kind := func(c int8) string {
		return string(rune(sc.sagas>>(2*c)&3)) + describeProgram(sc.programs[c])
	}
	for i := range int8(clients) {
		for j := range int8(clients) {
			x.alike[i][j] = kind(i) == kind(j)
		}
	}
	for _, p := range permutations {
		if x.alike[0][p[0]] && x.alike[1][p[1]] && x.alike[2][p[2]] {
			x.symmetries = append(x.symmetries, p)
		}
	}
	return x
}

func (x *explorer) start() state {
	s := state{srv: noKeys(), budget: x.budget}
	for c := range s.clients {
		s.clients[c].alive = x.programs[c].tickets > 0
		s.srv.heard[c] = !x.deaf && s.clients[c].alive
	}
	if x.behind {
		s.srv.last, s.truth.most = step, step
	}
	s.normalise()
	x.rename(&s)
	return s
}

// step makes a move and judges the result.
func (x *explorer) step(s *state, m move) {
	x.fault = nil
	x.apply(s, m)
	if x.fault == nil {
		x.check(s)
	}
	if x.fault == nil {
		s.normalise()
	}
}

// settle makes s the state that stands for it, checks whether it is a dead end, and returns its
// code.
func (x *explorer) settle(s *state) []byte {
	code := x.rename(s)
	x.drain(s)
	return code
}

func (x *explorer) key(code []byte) key {
	return key{maphash.Bytes(x.seeds[0], code), maphash.Bytes(x.seeds[1], code)}
}

// remember gives a new state a number.
func (x *explorer) remember(code []byte, from int32) (id int32, isNew bool) {
	k := x.key(code)
	if id, ok := x.known[k]; ok {
		return id, false
	}
	id = int32(len(x.parent))
	x.known[k] = id
	x.parent, x.keyed = append(x.parent, from), append(x.keyed, k)
	return id, true
}

// history retells the way to a state, and the move that broke something there. The clients were
// renamed on the way. So at each state history picks the move that leads to the next one.
func (x *explorer) history(id int32, wanted *fault) []string {
	var way []key
	for ; id >= 0; id = x.parent[id] {
		way = append(way, x.keyed[id])
	}
	s := x.start()
	var told []string
	for i := len(way) - 2; i >= -1; i-- {
		for _, m := range x.moves(&s, nil) {
			t := s
			x.step(&t, m)
			var here key
			if renamed := t; x.fault == nil {
				here = x.key(x.settle(&renamed))
			}
			leads := i >= 0 && here == way[i] || i < 0 && x.fault != nil && x.fault.invariant == wanted.invariant
			if leads && (i < 0) == (x.fault != nil) {
				told, s = append(told, x.describe(&s, m)), t
				break
			}
			x.fault = nil
		}
	}
	if x.fault != nil {
		told = append(told, x.ending(s, len(told))...)
	}
	return told
}

// ending retells how a state came to its fault after the last move. Only a dead end has more to
// tell.
func (x *explorer) ending(s state, moves int) []string {
	found := x.fault
	var trail []string
	x.fault, x.trail = nil, &trail
	x.settle(&s)
	x.trail = nil
	if x.fault == nil || moves == 0 {
		x.fault = found
		return []string{found.Error()}
	}
	return []string{"and from there (clients may have changed their names) without more faults: " + strings.Join(trail, "; "), x.fault.Error()}
}
