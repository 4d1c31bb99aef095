package majority

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
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
			return m.orphan || m.admins() || s == over
		}
		marked := (n.marks[m.call] == retired || n.marks[m.call] == forcedOut) && losses == 0 && w.broken != lateEnters && w.broken != lateRenewals && w.broken != evictionsRevive
		return m.orphan && marked && (m.what == enters || m.what == renews || m.what == tells)
	})
	w.pushes = slices.DeleteFunc(w.pushes, func(p push) bool {
		s := w.calls[p.call].stage
		return s == over && p.news != grants || s == killed || s == leaving || s == holding && p.news == wants
	})
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
	to := numbers(room[:0], s.now, s.truth.token)
	for _, p := range parts {
		to = numbers(to, int64(p))
	}
	to = append(to, byte(s.truth.harm), flags(s.truth.robbed))
	if s.truth.harm&unordered == 0 {
		to = append(append(to, s.truth.asked), s.truth.ahead[:]...)
	}
	to = s.budget.code(to)
	for c := range s.calls {
		to = append(s.calls[c].code(to, s.truth.forced[c]), flags(s.truth.untold[c], s.truth.evicted[c], s.truth.told[c]), s.truth.out[c])
	}
	return maphash.Bytes(seed, to)
}

func (k *call) code(to []byte, forced bool) []byte {
	to = append(to, byte(k.stage), flags(k.got, k.split, forced, k.renewed, k.listens, k.renewing, k.looked, k.tended))
	switch k.stage {
	case waiting:
		to = k.AppendCall(to)
	case holding:
		to = numbers(to, k.token, int64(k.Place), k.began, k.hold.TrustEnds.UnixMilli(), k.hold.RenewAt.UnixMilli(), k.hold.Term.Ends.UnixMilli())
	case leaving:
		to = numbers(to, k.token, int64(k.said[0]), int64(k.said[1]), int64(k.said[2]), int64(k.hold.State))
	case over:
		to = numbers(to, int64(k.why))
	case absent, idle, killed:
	}
	return to
}

func (s *state) nodeCode(to []byte, i int8, seed maphash.Seed) []byte {
	n := &s.nodes[i]
	to = append(to, byte(s.down[i]), byte(n.holder), byte(n.kept), byte(n.run), flags(n.decided, s.truth.lost[i]))
	to = numbers(to, n.token, n.since, n.ends, n.last, n.from, n.clock)
	for c := range int8(most) {
		k := &s.calls[c]
		to = append(to, byte(n.marks[c]), flags(n.heard[c], k.away[i], k.round>>i&1 == 1, k.stage == leaving && k.trusted[i], k.missed(i)), byte(k.session[i]))
		to = numbers(to, n.places[c], n.alive[c], n.blind[c])
		if k.stage == waiting || k.stage == holding {
			to = k.AppendLeg(to, int(i))
		}
		for j := range s.pushes {
			if p := &s.pushes[j]; p.node == i && p.call == c {
				to = numbers(append(to, 'p', byte(p.news)), p.token, p.at)
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
		to = numbers(to, int64(t))
	}
	return to
}

func (m *msg) code(to []byte) []byte {
	to = append(to, 'm', byte(m.what), byte(m.call), flags(m.orphan, m.late, m.round), byte(m.session))
	to = numbers(to, m.sent, m.place, m.back, m.token, m.vote)
	if a := &m.answer; m.what > requests {
		to = append(to, byte(a.status), byte(a.position), byte(a.holder), flags(a.older, a.pending, a.missing))
		to = numbers(to, a.now, a.left, a.place, a.token, a.since)
	}
	return to
}

func (b *budget) code(to []byte) []byte {
	for _, n := range [...]int8{
		b.slow, b.lag, b.ticks, b.giveUps, b.kills, b.lost, b.late, b.deaf, b.restarts, b.yesterdays, b.intact, b.flushes, b.floods, b.amnesias, b.hangs, b.deaths,
		b.forces, b.evictions, b.renewals, b.faults,
	} {
		to = append(to, byte(n))
	}
	return to
}

func numbers(to []byte, all ...int64) []byte {
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
