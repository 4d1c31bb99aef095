package majority

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/fairlock/locks/internal/rules"
)

// normalise drops what cannot matter any more.
func (w *world) normalise() {
	for i := range w.air {
		m := &w.air[i]
		if s := w.calls[m.call].stage; (s == over || s == killed) && m.what < leaves {
			m.orphan = true
		}
	}
	b := &w.budget
	losses := b.restarts + b.yesterdays + b.flushes + b.floods + b.amnesias
	w.air = slices.DeleteFunc(w.air, func(m msg) bool {
		n, s := &w.nodes[m.node], w.calls[m.call].stage
		switch {
		case m.what > requests:
			return s == over || s == killed || s == leaving
		case w.down[m.node] == dead:
			return m.orphan || m.what == forcedLeaves || s == over
		}
		marked := n.marks[m.call] && losses == 0 && w.broken != lateEnters && w.broken != lateRenewals
		return m.orphan && marked && (m.what == enters || m.what == renews || m.what == tells)
	})
	w.pushes = slices.DeleteFunc(w.pushes, func(p push) bool {
		s := w.calls[p.call].stage
		return s == over && p.news != grants || s == killed || s == leaving || s == holding && p.news == wants
	})
}

// forget drops what cannot matter any more of what calls and messages know.
func (w *world) forget() {
	soonest := w.soonest()
	var late, any [masters][most]bool // a request is under way: one that a mark may stop, or any
	for i := range w.air {
		if m := &w.air[i]; m.what < requests {
			any[m.node][m.call] = true
			late[m.node][m.call] = late[m.node][m.call] || m.what < leaves || m.back > 0
		}
	}
	for i := range w.pushes {
		any[w.pushes[i].node][w.pushes[i].call] = true
	}
	r := &request{now: w.now}
	still := w.budget.ticks+w.budget.faults == 0 && w.truth.harm&untimely == 0 // no time passes any more
	for i := range w.nodes {
		n := &w.nodes[i]
		for c := range int8(most) {
			ended := w.calls[c].stage > holding
			if ended && !late[i][c] {
				n.marks[c] = false
			}
			if w.calls[c].stage > leaving && !any[i][c] && n.places[c] == 0 && n.holder != c {
				n.heard[c], n.blind[c] = false, 0
			}
			if n.heard[c] && w.budget.faults == 0 {
				n.blind[c] = 0
			}
			if n.alive[c] > n.ms(r) && still {
				n.alive[c] = n.ms(r) + claim
			}
		}
	}
	for c := range int8(most) {
		k := &w.calls[c]
		switch k.stage {
		case waiting, holding:
			for i := range masters {
				if b := k.Forget(i, soonest[i][c], w.room); b != k.Ballot {
					w.replaces(c, b)
				}
			}
			for a := range int8(most) {
				if s := w.calls[a].stage; s != idle && s != waiting {
					w.truth.ahead[c] &^= 1 << a
				}
			}
		case leaving:
			if k.token = 0; w.truth.harm&unclean != 0 || k.hold.State != rules.Releasing {
				k.trusted = [masters]bool{} // nobody judges what the release says
			}
		case over, killed:
			*k = call{Ballot: k.Ballot, stage: k.stage, got: k.got, why: k.why, split: k.split}
		case absent, idle:
		}
	}
	for i := range w.air {
		m := &w.air[i]
		if m.what > requests {
			m.place, m.back = 0, 0
			continue
		}
		if m.what == leaves && m.back > 0 { // a mutation: an enter follows
			continue
		}
		if m.back < soonest[m.node][m.call] {
			m.back = 0
		}
		if m.what == leaves && (w.down[m.node] == dead || w.keeps(m.node) && m.token <= w.nodes[m.node].last) {
			m.token = 0
		}
		m.late = m.late && (late[m.node][m.call] || w.calls[m.call].stage <= holding)
		if m.orphan || m.what == leaves {
			m.sent, m.session, m.vote, m.round = 0, 0, 0, false
		}
	}
}

// soonest is, by node and call, the least token with which an answer or a message of the node may
// come, or which its record of the call may have. It is 0 if the node may forget its tokens.
func (w *world) soonest() (least [masters][most]int64) {
	for i := range least {
		if !w.keeps(int8(i)) {
			continue
		}
		for c := range least[i] {
			if least[i][c] = math.MaxInt64; w.down[i] != dead {
				least[i][c] = w.nodes[i].last + 1
			}
		}
		if c := w.nodes[i].holder; c != nobody {
			least[i][c] = min(least[i][c], w.nodes[i].token)
		}
	}
	lower := func(i, c int8, token int64) { least[i][c] = min(least[i][c], token) }
	for i := range w.air {
		switch m := &w.air[i]; m.what {
		case tells, renews, answersTell, answersRenew:
			lower(m.node, m.call, m.token)
		case answersEnter:
			if a := &m.answer; a.status == granted {
				lower(m.node, m.call, a.token)
			} else if a.status != gone {
				lower(m.node, m.call, a.token+1)
			}
		case answersBeat:
			if a := &m.answer; a.holder == m.call {
				lower(m.node, m.call, a.token)
			}
		}
	}
	for i := range w.pushes {
		if p := &w.pushes[i]; p.news != evicts {
			lower(p.node, p.call, p.token)
		}
	}
	if !w.mayRenew() {
		return least
	}
	for c := range int8(most) {
		token := int64(0)
		switch k := &w.calls[c]; k.stage {
		case waiting:
			token = k.Least(func(i int) int64 { return least[i][c] })
		case holding:
			token = k.token
		default:
			continue
		}
		for i := range int8(masters) {
			lower(i, c, token)
		}
	}
	return least
}

// mayRenew reports whether a renewal may be sent, now or later.
func (w *world) mayRenew() bool {
	return w.allows.renewals+w.allows.ticks+w.allows.faults > 0 || w.hung|w.dead != 0 || w.unmet || w.cuts != [most]uint8{}
}

// keeps reports whether the node has lost nothing, and never will.
func (w *world) keeps(i int8) bool {
	b := &w.budget
	return !w.truth.lost[i] && (b.faults == 0 || b.restarts+b.yesterdays+b.flushes+b.floods+b.amnesias == 0)
}

// hash is a number that is the same for states that differ only in what cannot matter. Nodes have
// no names.
func (s *state) hash(seed maphash.Seed) uint64 {
	var room [1024]byte
	var parts [masters]uint64
	for i := range parts {
		parts[i] = maphash.Bytes(seed, s.nodeCode(room[:0], int8(i), seed))
	}
	slices.Sort(parts[:])
	to := longs(room[:0], int64(s.now), s.truth.token)
	for _, p := range parts {
		to = longs(to, int64(p))
	}
	to = append(to, byte(s.truth.harm), flags(s.truth.robbed))
	if s.truth.harm&unordered == 0 {
		to = append(append(to, s.truth.asked), s.truth.ahead[:]...)
	}
	to = s.budget.code(to)
	for c := range s.calls {
		to = append(s.calls[c].code(to, s.truth.forced[c]), flags(s.truth.untold[c]))
	}
	return maphash.Bytes(seed, to)
}

func (k *call) code(to []byte, forced bool) []byte {
	to = append(to, byte(k.stage), flags(k.got, k.split, forced, k.renewed, k.listens, k.renewing, k.looked, k.tended))
	switch k.stage {
	case waiting:
		to = k.AppendCall(to)
	case holding:
		to = longs(to, k.token, int64(k.Place), k.began, k.hold.TrustEnds.UnixMilli(), k.hold.RenewAt.UnixMilli(), k.hold.Term.Ends.UnixMilli())
	case leaving:
		to = longs(to, k.token, int64(k.said[0]), int64(k.said[1]), int64(k.said[2]), int64(k.hold.State))
	case over:
		to = longs(to, int64(k.why))
	case absent, idle, killed:
	}
	return to
}

func (s *state) nodeCode(to []byte, i int8, seed maphash.Seed) []byte {
	n := &s.nodes[i]
	to = append(to, byte(s.down[i]), byte(n.holder), byte(n.kept), byte(n.run), flags(n.decided, s.truth.lost[i]))
	to = longs(to, n.token, n.since, n.ends, n.last, n.from, n.clock)
	for c := range int8(most) {
		k := &s.calls[c]
		to = append(to, flags(n.marks[c], n.heard[c], k.away[i], k.round>>i&1 == 1, k.stage == leaving && k.trusted[i]), byte(k.session[i]))
		to = longs(to, n.places[c], n.alive[c], n.blind[c])
		if k.stage == waiting || k.stage == holding {
			to = k.AppendLeg(to, int(i))
		}
		for j := range s.pushes {
			if p := &s.pushes[j]; p.node == i && p.call == c {
				to = longs(append(to, 'p', byte(p.news)), p.token, p.at)
			}
		}
	}
	var few [24]uint64
	texts := few[:0]
	for j := range s.air {
		if m := &s.air[j]; m.node == i {
			var room [160]byte
			texts = append(texts, maphash.Bytes(seed, m.code(room[:0])))
		}
	}
	slices.Sort(texts)
	for _, t := range texts {
		to = longs(to, int64(t))
	}
	return to
}

func (m *msg) code(to []byte) []byte {
	to = append(to, 'm', byte(m.what), byte(m.call), flags(m.orphan, m.late, m.round), byte(m.session))
	to = longs(to, m.sent, m.place, m.back, m.token, m.vote)
	if a := &m.answer; m.what > requests {
		to = append(to, byte(a.status), byte(a.position), byte(a.holder), flags(a.older, a.pending, a.missing))
		to = longs(to, a.now, a.left, a.place, a.token, a.since)
	}
	return to
}

func (b *budget) code(to []byte) []byte {
	for _, n := range [...]int8{
		b.slow, b.lag, b.ticks, b.giveUps, b.kills, b.lost, b.late, b.deaf, b.restarts, b.yesterdays, b.intact, b.flushes, b.floods, b.amnesias, b.hangs, b.deaths,
		b.forces, b.renewals, b.faults,
	} {
		to = append(to, byte(n))
	}
	return to
}

func longs(to []byte, all ...int64) []byte {
	for _, n := range all {
		to = binary.LittleEndian.AppendUint64(to, uint64(n))
	}
	return to
}

func flags(all ...bool) (n byte) {
	for i, bit := range all {
		if bit {
			n |= 1 << i
		}
	}
	return n
}
