package explore

import "bytes"

var permutations = [][clients]int8{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// rename picks one of the states that differ only in the names of clients with the same program.
// That state stands for all of them. The returned code of the state is good until the next call.
func (x *explorer) rename(s *state) []byte {
	w := &x.work
	for c := range int8(clients) {
		w.clients[c] = s.clients[c].encode(w.clients[c][:0]) // this names no client
		w.signs[c] = s.sign(c, append(w.signs[c][:0], w.clients[c]...))
	}
	found := false
	for _, p := range x.symmetries {
		if !x.ordered(p) {
			continue
		}
		s.permute(p, &w.other)
		w.other.sortFlights()
		w.code = w.other.srv.encode(w.code[:0])
		for _, c := range p {
			w.code = append(w.code, w.clients[c]...)
		}
		if w.code = w.other.encodeRest(w.code); !found || bytes.Compare(w.code, w.least) < 0 {
			w.best, w.least, w.code, found = w.other, w.code, w.least, true
		}
	}
	*s = w.best
	return w.least
}

// ordered reports whether the new names put clients of the same program in the order of their
// signs. p[i] is the client that would get the name i.
func (x *explorer) ordered(p [clients]int8) bool {
	for _, pair := range [][2]int8{{p[0], p[1]}, {p[1], p[2]}, {p[0], p[2]}} {
		if x.alike[pair[0]][pair[1]] && bytes.Compare(x.work.signs[pair[0]], x.work.signs[pair[1]]) > 0 {
			return false
		}
	}
	return true
}

// work is memory for reuse.
type work struct {
	clients     [clients][]byte // their codes
	signs       [clients][]byte
	code, least []byte
	other, best state
	quiet       state
	quietCode   []byte
}

// sign appends to the code of a client what else can be said of it without naming another one.
func (s *state) sign(c int8, b []byte) []byte {
	k, t := &s.srv, &s.truth
	for i := 2 * c; i < 2*c+2; i++ {
		b = put(b, k.holds[i], k.waits[i], k.retired[i], k.forced[i], t.place[i], t.entered[i], t.forced[i])
		b = bits(b, t.back[i], t.inLine[i], t.left[i], t.clean[i], t.unknown[i], t.orphan[i], t.silent[i], k.owner == itself+i)
	}
	b = put(b, k.blind[c], k.passed[c], t.blind[c])
	return bits(b, k.heard[c], t.passed[c])
}

// permute writes to t what s becomes when the clients change their names.
func (s *state) permute(p [clients]int8, t *state) {
	*t = *s
	var to [clients]int8 // the new name of a client
	for i, c := range p {
		to[c] = int8(i)
	}
	ticket := func(t int8) int8 { return 2*to[t/2] + t%2 }
	if o := t.srv.owner; o >= itself && o < itself+tickets {
		t.srv.owner = itself + ticket(o-itself)
	}
	for i := range t.srv.queue[:t.srv.length] {
		t.srv.queue[i].ticket = ticket(t.srv.queue[i].ticket)
	}
	for c := range int8(clients) {
		n := to[c]
		t.clients[n] = s.clients[c]
		for i := range t.clients[n].inbox[:t.clients[n].mail] {
			m := &t.clients[n].inbox[i]
			m.client, m.ticket = n, ticket(m.ticket)
		}
		t.srv.blind[n], t.srv.passed[n], t.srv.heard[n] = s.srv.blind[c], s.srv.passed[c], s.srv.heard[c]
		t.truth.blind[n], t.truth.passed[n] = s.truth.blind[c], s.truth.passed[c]
	}
	for i := range int8(tickets) {
		n := ticket(i)
		t.srv.holds[n], t.srv.waits[n] = s.srv.holds[i], s.srv.waits[i]
		t.srv.retired[n], t.srv.forced[n] = s.srv.retired[i], s.srv.forced[i]
		t.truth.move(n, &s.truth, i)
	}
	for i := range t.flights {
		f := &t.flights[i]
		if f.kind == landed {
			continue
		}
		if f.req.client != admin {
			f.req.client = to[f.req.client]
		}
		for j := range f.req.of[:f.req.n] {
			f.req.of[j].ticket = ticket(f.req.of[j].ticket)
		}
		if f.req.verb == renew || f.req.verb == reassert {
			f.req.ticket = ticket(f.req.ticket)
		}
		if f.rep.passing.token != 0 {
			f.rep.passing.ticket = ticket(f.rep.passing.ticket)
		}
	}
}
