package explore

import "bytes"

var permutations = [][clients]int8{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// rename lets clients with the same program change their names: of all the states that come of it, one stands for them.
func (x *explorer) rename(s *state) {
	var signs [clients][]byte
	var room [clients][160]byte
	for c := range int8(clients) {
		signs[c] = s.sign(c, room[c][:0])
	}
	var best []byte
	var chosen *state
	for _, p := range x.symmetries {
		// p[i] is the client that is called i now.
		if bytes.Compare(signs[p[0]], signs[p[1]]) > 0 && x.alike[p[0]][p[1]] || bytes.Compare(signs[p[1]], signs[p[2]]) > 0 && x.alike[p[1]][p[2]] ||
			bytes.Compare(signs[p[0]], signs[p[2]]) > 0 && x.alike[p[0]][p[2]] {
			continue
		}
		if p == permutations[0] && chosen == nil {
			t := *s
			chosen, best = &t, t.encode(nil)
			continue
		}
		t := s.permuted(p)
		t.sortFlights()
		if code := t.encode(nil); chosen == nil || bytes.Compare(code, best) < 0 {
			chosen, best = &t, code
		}
	}
	*s = *chosen
}

// sign is what can be said of a client without naming another.
func (s *state) sign(c int8, b []byte) []byte {
	k, t := &s.srv, &s.truth
	b = s.clients[c].encode(b)
	for i := 2 * c; i < 2*c+2; i++ {
		b = put(b, k.holds[i], k.waits[i], k.retired[i], t.place[i], t.entered[i], t.forced[i])
		b = bits(b, t.inLine[i], t.left[i], t.clean[i], t.unknown[i], t.orphan[i], k.owner == itself+i)
	}
	b = put(b, k.blind[c], k.passed[c], t.blind[c])
	return bits(b, k.heard[c], t.passed[c])
}

func (s *state) permuted(p [clients]int8) state {
	t := *s
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
		t.srv.holds[n], t.srv.waits[n], t.srv.retired[n] = s.srv.holds[i], s.srv.waits[i], s.srv.retired[i]
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
	return t
}
