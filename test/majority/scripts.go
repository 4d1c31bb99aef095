package majority

// answer is the reply to an enter or a beat.
type answer struct {
	status   status
	now      int64 // us
	left     int64
	place    int64
	position int8
	holder   int8
	older    bool // granted: somebody older is in line
	pending  bool // the holder is undecided, and not known to be older
	token    int64
	since    int64
	missing  bool // beat: the call is not in line
}

// status is what a node replies to an enter.
type status int8

const (
	granted status = iota
	waits
	held
	full
	gone
)

// enter is enter.lua.
func (n *node) enter(r *request, c int8, place, bound, back int64) answer {
	r.me, r.asking = c, c
	n.expire(r)
	if n.marks[c] != unmarked && r.broken != lateEnters {
		return answer{status: gone}
	}
	asked, at, alive := place, n.places[c], n.alive[c] != 0
	usual := n.holder == nobody && at == 0 && n.waiting(nobody) == 0 && n.kept != 0 && n.knowsItself(r) && n.from <= n.ms(r)
	if n.holder == c && n.token == back && !n.decided {
		n.drop()
	}
	turned, is := n.turns(r, c, place, bound)
	if !is {
		if place == 0 {
			place = n.proposed(r, at)
		}
		n.places[c], n.alive[c] = place, n.ms(r)+liveness
		if !usual {
			n.stay(r)
		}
	}
	left := n.advance(r)
	a := answer{now: n.us(r), left: left, place: place, holder: n.holder, token: n.last}
	if n.holder == c {
		n.alive[c] = n.ms(r) + left
		a.status, a.token, a.since = granted, n.token, n.since
		a.older = !n.decided && n.rank(c) > 0 && r.broken != nobodyYields && r.broken != holdersAreNotAsked
		return a
	}
	older := false
	switch {
	case is:
		a.status = turned
	case bound < 0 && at == 0 && !alive:
		n.leaveLine(c)
		a.status = held
	default:
		a.status = waits
		rank, its := n.rank(c), n.rank(n.holder)
		older = its >= 0 && its < rank
		if rank >= 0 {
			a.position = int8(rank)
			if !older {
				a.position++
			}
		}
		if asked > 0 {
			n.want(r, c)
		}
	}
	if a.status != waits {
		a.position = n.waiting(n.holder)
	}
	a.pending = n.holder != nobody && !n.decided && !older
	return a
}

// proposed is the place of a call that says none.
func (n *node) proposed(r *request, at int64) int64 {
	tail := int64(0)
	for _, p := range n.places {
		tail = max(tail, p)
	}
	if at > 0 {
		return at
	}
	if r.broken == tailDoesNotCount {
		return n.us(r)
	}
	return max(n.us(r), tail+1)
}

// turns reports whether a newcomer is turned away.
func (n *node) turns(r *request, c int8, place, bound int64) (status, bool) {
	if n.places[c] != 0 || place != 0 || n.holder == c {
		return 0, false
	}
	if bound < 0 && n.holder != nobody {
		return held, true
	}
	if holder := n.holder; bound > 0 && int64(n.waiting(holder)) >= bound {
		n.advance(r)
		n.sweep(r)
		if int64(n.waiting(holder)) >= bound {
			return full, true
		}
	}
	return 0, false
}

// sweep drops whoever's time is over, but the holder.
func (n *node) sweep(r *request) {
	for c := range int8(most) {
		if n.alive[c] <= n.ms(r) && c != n.holder && n.alive[c] != 0 {
			n.leaveLine(c)
		}
		if n.blind[c] <= n.ms(r) {
			n.blind[c] = 0
		}
	}
}

// waiting is how many stand in line beside the holder.
func (n *node) waiting(holder int8) (count int8) {
	for c, p := range n.places {
		if p != 0 && int8(c) != holder {
			count++
		}
	}
	return count
}

// left is what a leave replies.
type left int8

const (
	neither left = iota
	waited
	hadIt
	forgot
	forcedBefore
)

// taking says who has a call leave, by the numbers of package quorum.
type taking int8

const (
	itself taking = iota
	byForce
	eviction
)

// marksGone is what leave.lua does with the mark.
func (n *node) marksGone(r *request, c int8, late bool, by taking) {
	switch {
	case by == eviction && (n.marks[c] != unmarked && r.broken != evictionsRevive || r.broken == evictionsLeaveNoMark):
	case by == eviction:
		n.marks[c] = taken
	case late && r.broken != leavesDoNotRetire:
		n.marks[c] = retired
		if by == byForce {
			n.marks[c] = forcedOut
		}
	}
}

// leave is leave.lua.
func (n *node) leave(r *request, c int8, token int64, late bool, by taking) left {
	force := by != itself
	r.asking = nobody
	n.expire(r)
	if by == eviction && n.holder == c && r.broken != evictionsTake {
		if r.broken != votersAreNotTold {
			n.tell(r, push{news: evicts, call: c})
		}
		return hadIt
	}
	was := neither
	if n.places[c] != 0 {
		was = waited
	}
	empty := true
	n.leaveLine(c)
	if !force && token > 0 && was == neither && n.holder != c && n.marks[c] == forcedOut {
		was = forcedBefore
	} else {
		n.marksGone(r, c, late, by)
	}
	had := n.token
	if n.holder == c {
		n.drop()
		was = hadIt
		if force && r.broken != forceKeepsTokens {
			token = max(had, n.us(r)+claim*1000)
			if r.broken == forceRaisesFar {
				token = max(had, n.us(r)+3*claim*1000)
			}
		}
	}
	if was != hadIt && was != forcedBefore && !force && token > 0 && n.forgets(r) && r.broken != forgetsInSilence {
		was = forgot
	}
	if (r.broken != leavesDoNotTell || force) && token > n.last {
		n.remember(r, token, 0)
	}
	for _, p := range n.places {
		empty = empty && p == 0
	}
	if empty && !force {
		return was
	}
	if force && was == hadIt {
		n.tell(r, push{news: forces, call: c, token: had})
	} else if force && was == waited {
		n.tell(r, push{news: evicts, call: c})
	}
	n.advance(r)
	return was
}

// beat is beat.lua, for one call.
func (n *node) beat(r *request, c int8) answer {
	r.me, r.asking = c, nobody
	n.expire(r)
	a := answer{missing: n.places[c] == 0}
	if !a.missing {
		n.alive[c] = n.ms(r) + liveness
	}
	n.stay(r)
	a.left = n.advance(r)
	a.now, a.holder, a.token, a.since = n.us(r), n.holder, n.token, n.since
	a.older = n.holder != nobody && !n.decided && n.rank(n.holder) > 0 && r.broken != nobodyYields
	return a
}

// renew is renew.lua, for one hold. It replies how long the record has it; 0: it waits in line, -1:
// it has left.
func (n *node) renew(r *request, c int8, token, lease, place int64, decided bool) int64 {
	r.me, r.asking = c, nobody
	n.expire(r)
	if n.marks[c] == taken && decided && r.broken != evictionsBind {
		n.marks[c] = unmarked
	}
	switch {
	case n.marks[c] != unmarked && r.broken != lateRenewals:
		return -1
	case n.holder == c, n.holder == nobody && decided:
		if n.holder == nobody {
			n.quarantined(r)
		}
		if n.holder != c {
			n.holder, n.decided, n.since, n.ends = c, false, n.us(r), n.ms(r)-1
		}
		left := min(max(1, n.ends-n.ms(r), lease), longest)
		n.remember(r, token, left)
		n.token, n.depth = token, 1
		n.decided = n.decided || decided
		n.ends = n.ms(r) + left
		if n.alive[c] != 0 {
			n.alive[c] = n.ends
		}
		return left
	}
	n.places[c], n.alive[c] = place, n.ms(r)+liveness
	n.stay(r)
	n.want(r, c)
	return 0
}

// restart ends a node and starts it with what it has of its data.
func (n *node) restart(data data) {
	fresh := node{holder: nobody, run: n.run + 1, clock: n.clock}
	switch data {
	case none:
	case yesterdays: // the file is from before the lock was used
		fresh.kept, fresh.from = n.kept, n.from
	case all:
		run := fresh.run
		fresh = *n
		fresh.run = run
		fresh.heard = [most]bool{}
	}
	*n = fresh
}

// flush takes all data from a node.
func (n *node) flush() {
	*n = node{holder: nobody, run: n.run, clock: n.clock, heard: n.heard}
}

// data is what a restarted node has.
type data int8

const (
	none data = iota
	yesterdays
	all
)
