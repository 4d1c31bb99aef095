package majority

import (
	"cmp"
	"slices"

	"github.com/fairlock/locks/lua"
)

// most is the number of calls in the world.
const most = 3

// The times of the world, in milliseconds. Every lease is a claim, and no longer one is allowed.
var (
	claim    = lua.Claim.Milliseconds()
	liveness = lua.Liveness.Milliseconds()
	longest  = claim
	rest     = 2 * claim // as rest.lua says
)

// blindFor is BLIND in the scripts.
const blindFor = 3000

// nobody is in the place of a call.
const nobody int8 = -1

// node is a master: what it keeps of the one lock, and of itself. Its times are by its own clock.
// Of calls it knows their numbers; tickets sort as these do.
type node struct {
	holder  int8 // who has the record: nobody if there is none
	decided bool
	token   int64
	since   int64 // us
	ends    int64
	depth   int64 // as a renewal said it: no matter to a search

	places [most]int64 // us; 0: not in line
	alive  [most]int64 // until when; 0: not in the set
	blind  [most]int64
	marks  [most]mark // for a minute, and so for ever here
	last   int64      // the token key
	lasts  int64      // until when there is one: no matter to a search

	kept int8 // the run id that it wrote down; 0: none
	from int64

	run   int8 // its run id; 0 is none
	clock int64
	heard [most]bool
}

// mark is what a node keeps of a call that has left.
type mark int8

const (
	unmarked mark = iota
	retired
	forcedOut // retired by force
	taken     // by an eviction: no matter to a holder
)

// request is whose script a node runs, and when.
type request struct {
	me     int8  // the client
	asking int8  // the call of an enter
	now    int64 // by the world's clock
	broken mutation
	told   []push
}

func (n *node) ms(r *request) int64 { return r.now + n.clock }

func (n *node) us(r *request) int64 { return n.ms(r) * 1000 }

// expire drops what has ended.
func (n *node) expire(r *request) {
	if n.holder != nobody && n.ends <= n.ms(r) {
		n.drop()
	}
}

func (n *node) drop() {
	n.holder, n.decided, n.token, n.since, n.ends, n.depth = nobody, false, 0, 0, 0, 0
}

// line is who stands in line, in order.
func (n *node) line() []int8 {
	var all [most]int8
	line := all[:0]
	for c := range int8(most) {
		if n.places[c] != 0 {
			line = append(line, c)
		}
	}
	slices.SortFunc(line, func(a, b int8) int { return cmp.Or(cmp.Compare(n.places[a], n.places[b]), cmp.Compare(a, b)) })
	return line
}

// rank is where a call stands in line; -1: it does not.
func (n *node) rank(c int8) int {
	if c == nobody || n.places[c] == 0 {
		return -1
	}
	rank := 0
	for o := range int8(most) {
		if n.places[o] != 0 && (n.places[o] < n.places[c] || n.places[o] == n.places[c] && o < c) {
			rank++
		}
	}
	return rank
}

func (n *node) leaveLine(c int8) { n.places[c], n.alive[c] = 0, 0 }

// hears reports whether somebody is subscribed to the client's channel.
func (n *node) hears(c int8) bool { return c != nobody && n.heard[c] }

// tell publishes a message.
func (n *node) tell(r *request, p push) {
	if n.hears(p.call) {
		r.told = append(r.told, p)
	}
}

// knowsItself reports whether the node has lost nothing, as far as it can tell.
func (n *node) knowsItself(r *request) bool {
	return n.kept == n.run || r.broken == markerOnly && n.kept != 0 || r.broken == runOnly && n.kept == 0
}

// quarantined is quarantined in advance.lua.
func (n *node) quarantined(r *request) int64 {
	switch {
	case r.broken == noQuarantine:
		return 0
	case n.knowsItself(r) && n.from-n.ms(r) <= rest:
		return max(0, n.from-n.ms(r))
	}
	n.kept, n.from = n.run, n.ms(r)+rest
	return rest
}

// forgets is whether kept.lua says that the node grants nothing.
func (n *node) forgets(r *request) bool { return n.kept != n.run || n.from > n.ms(r) }

// remember is remember in advance.lua.
func (n *node) remember(r *request, token, left int64) {
	lasts := max(n.ms(r)+left, (token+999)/1000) + lua.TokenTTL.Milliseconds()
	if token > n.last {
		n.last, n.lasts = token, lasts
	}
	n.lasts = max(n.lasts, lasts)
}

// give is give in advance.lua.
func (n *node) give(r *request, c int8) {
	token := max(n.us(r), n.last+1)
	n.remember(r, token, claim)
	n.holder, n.decided, n.token, n.since, n.ends = c, false, token, n.us(r), n.ms(r)+claim
	n.alive[c] = n.ms(r) + claim
	if r.broken == votesEndEarly {
		n.ends = n.ms(r) + claim/3
	}
}

// advance is advance in advance.lua.
func (n *node) advance(r *request) int64 {
	if n.holder != nobody {
		return max(1, min(n.ends-n.ms(r), longest))
	}
	for _, c := range n.line() {
		if n.alive[c] > n.ms(r) && (c == r.me || n.blind[c] > n.ms(r) || n.hears(c)) {
			if wait := n.quarantined(r); wait > 0 {
				return wait
			}
			n.give(r, c)
			if c != r.asking {
				n.tell(r, push{news: grants, call: c, token: n.token, at: n.since})
			}
			return claim
		}
		n.leaveLine(c)
	}
	return 0
}

// want is want in advance.lua.
func (n *node) want(r *request, c int8) {
	if n.holder == nobody || n.decided || r.broken == nobodyYields {
		return
	}
	mine, its := n.rank(c), n.rank(n.holder)
	if mine >= 0 && its >= 0 && mine < its {
		n.tell(r, push{news: wants, call: n.holder, token: n.token})
	}
}

// stay is stay.lua.
func (n *node) stay(r *request) {
	if n.hears(r.me) || r.broken == blindAreDropped {
		return
	}
	for c := range n.blind {
		if n.blind[c] <= n.ms(r) {
			n.blind[c] = 0
		}
	}
	n.blind[r.me] = n.ms(r) + blindFor
}
