package majority

// program is what a call is.
type program struct {
	present bool
	bound   int // as a request says it: 0 waits, -1 is a try, n waits unless n others do
}

// scenario is a world to search.
type scenario struct {
	name     string
	programs [most]program
	allows   budget
	clocks   [masters]int64 // how far the nodes' clocks are ahead (ms)
	quick    bool           // who loses a subscription has it again at once, and is not told what it missed
	unmet    bool           // the nodes have never been asked for a lock
	deaf     bool           // nobody has a subscription yet
	inTurn   bool           // a call begins when the one before it is over
	cuts     [most]uint8    // the nodes that a call's client never reaches
	hung     uint8          // nodes that hang as all begins, as everybody knows
	dead     uint8          // nodes that are gone for good
	step     int64          // of time; 0: the usual one
	broken   mutation
	most     int // how many states to search; 0: all
}

// begin is when the world begins, by all clocks.
const begin = 1_900_000_000_000

func (sc *scenario) start() *state {
	s := &state{now: begin, budget: sc.allows}
	for i := range s.nodes {
		n := &s.nodes[i]
		*n = node{holder: nobody, run: 1, kept: 1, clock: sc.clocks[i]}
		if sc.unmet {
			n.kept = 0
			s.truth.harm |= untimely
		}
		switch {
		case sc.dead>>i&1 == 1:
			s.down[i] = dead
		case sc.hung>>i&1 == 1:
			s.down[i] = hangs
		}
		for c := range n.heard {
			n.heard[c] = sc.programs[c].present && !sc.deaf
		}
	}
	for c := range s.calls {
		for i := range s.nodes {
			s.calls[c].away[i] = (sc.hung|sc.dead|sc.cuts[c])>>i&1 == 1
		}
		s.calls[c].looked, s.calls[c].tended = true, true
		if sc.programs[c].present {
			s.calls[c].stage = idle
			if sc.allows.ticks == 0 && !sc.inTurn { // its requests may arrive as late as they like
				w := &world{scenario: sc, state: s}
				w.begins(int8(c))
			}
		}
	}
	if sc.cuts != [most]uint8{} {
		s.truth.harm |= unordered | untimely | unclean
	}
	return s
}
