package explore

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
)

// put appends numbers; a small number takes one byte.
func put(b []byte, all ...int32) []byte {
	for _, v := range all {
		if v == absent {
			b = append(b, 1)
			continue
		}
		u := uint32(v<<1) ^ uint32(v>>31) + 2
		for u >= 0x80 {
			b = append(b, byte(u)|0x80)
			u >>= 7
		}
		b = append(b, byte(u))
	}
	return b
}

func bits(b []byte, all ...bool) []byte {
	var v byte
	for _, bit := range all {
		v <<= 1
		if bit {
			v |= 1
		}
	}
	return append(b, v)
}

func (s *state) encode(b []byte) []byte {
	b = s.srv.encode(b)
	for i := range s.clients {
		b = s.clients[i].encode(b)
	}
	return s.encodeRest(b)
}

// encodeRest is what encode has after the clients.
func (s *state) encodeRest(b []byte) []byte {
	for i := range s.flights {
		b = s.flights[i].encode(b)
	}
	b = s.budget.encode(b)
	return s.truth.encode(b)
}

func (k *keys) encode(b []byte) []byte {
	b = append(b, byte(k.owner), byte(k.length))
	b = put(b, k.token, k.ends, k.kept, k.lined, k.waitered, k.last, k.gather, k.lease)
	for i := range tickets {
		b = put(b, k.holds[i], k.waits[i], k.retired[i], k.forced[i])
	}
	for _, e := range k.queue[:k.length] {
		b = append(put(b, e.place), byte(e.ticket))
	}
	for i := range clients {
		b = put(b, k.blind[i], k.passed[i])
	}
	return bits(b, k.heard[0], k.heard[1], k.heard[2])
}

func (c *client) encode(b []byte) []byte {
	b = put(bits(b, c.alive, c.closed), c.seen, c.knew)
	for i := range c.at {
		a := &c.at[i]
		b = append(b, byte(a.phase))
		b = bits(put(b, a.token, a.until, a.requests.InFlight), a.requests.Lost, a.requests.Executed, a.asks, a.unknown, a.gone, a.run, a.follows)
		b = encodeHold(encodeWait(b, &a.wait), &a.hold)
	}
	b = append(b, byte(c.mail))
	for i := range c.inbox[:c.mail] {
		m := &c.inbox[i]
		b = append(b, m.verb, byte(m.ticket%2))
		b = bits(put(b, m.token, m.claim, m.at, int32(m.stamp)), m.forged, m.run)
	}
	return b
}

func encodeWait(b []byte, w *rules.Waiter) []byte {
	b = bits(append(b, byte(w.Phase), byte(w.Unplaced), byte(w.Late), byte(w.Last.Session)), w.OnServer)
	b = put(b, int32(w.Place), int32(w.Shown), int32(w.Forced))
	if w.Last.At == 0 {
		return put(b, absent, timed(w.Began))
	}
	lag, age, stamp := parts(&w.Last)
	return put(b, lag, age, int32(stamp))
}

func encodeHold(b []byte, h *rules.Hold) []byte {
	b = bits(append(b, byte(h.State)), h.Unsure, h.Began.IsZero())
	return put(b, timed(h.Term.Ends), timed(h.TrustEnds), int32(h.Lease/time.Millisecond), h.Depth)
}

// timed returns a time that may be absent.
func timed(t time.Time) ms {
	if t.IsZero() {
		return absent
	}
	return from(t)
}

func (f *flight) encode(b []byte) []byte {
	b = append(b, byte(f.kind))
	if f.kind == landed {
		return b
	}
	r, p := &f.req, &f.rep
	b = append(b, byte(r.verb), byte(r.client), byte(r.n), byte(r.ticket))
	b = put(b, r.token, r.seen, r.knew)
	for _, a := range r.of[:r.n] {
		b = bits(append(put(b, a.place), byte(a.ticket)), a.retire, a.tell)
	}
	b = bits(put(b, f.sent, f.lag, int32(f.stamp)), f.session, f.trusted, p.more, p.done, r.some, p.passing.run)
	if f.kind == answer {
		b = put(b, p.token, p.remaining, p.passing.token, p.passing.remaining, p.left)
		b = append(b, byte(p.passing.ticket))
		for _, t := range p.of[:r.n] {
			b = append(put(b, t.token, t.remaining, t.place), byte(t.status))
		}
	}
	return b
}

func (b *budget) encode(to []byte) []byte {
	for _, n := range [...]int8{
		b.ticks, b.faults, b.crash, b.stop, b.deaf, b.delay, b.lose, b.late, b.twice,
		b.dropped, b.doubled, b.flush, b.force, b.closed, b.forged, b.swallowed, b.tired,
	} {
		to = append(to, byte(n))
	}
	return to
}

func (t *truth) encode(b []byte) []byte {
	b = bits(put(b, t.most), t.flushed, t.passed[0], t.passed[1], t.passed[2])
	b = put(b, t.blind[0], t.blind[1], t.blind[2])
	for i := range tickets {
		b = put(b, t.place[i], t.entered[i], t.forced[i])
		b = bits(b, t.back[i], t.inLine[i], t.left[i], t.clean[i], t.unknown[i], t.orphan[i], t.silent[i])
	}
	return b
}
