package torture

import (
	"time"

	"github.com/fairlock/locks/test/faultproxy"
)

// pauses has a node answer nobody for a while.
func (r *rebel) pauses() bool {
	nodes := r.some(1)
	if len(nodes) == 0 {
		return false
	}
	n, d := nodes[0], r.between(50*time.Millisecond, 1500*time.Millisecond)
	t := r.at(n, "CLIENT PAUSE", everybody)
	n.busy = true
	r.ask(n, "CLIENT", "PAUSE", d.Milliseconds(), "ALL")
	r.later(t, d, func() { n.busy = false })
	return true
}

// fills has a node refuse all writes for a while.
func (r *rebel) fills() bool {
	nodes := r.some(1)
	if len(nodes) == 0 {
		return false
	}
	n := nodes[0]
	t := r.at(n, "OOM", everybody)
	n.busy = true
	r.ask(n, "CONFIG", "SET", "maxmemory", "1")
	r.later(t, r.between(500*time.Millisecond, 3*leaseTime), func() {
		r.ask(n, "CONFIG", "SET", "maxmemory", "0")
		n.busy = false
	})
	return true
}

// parts has each process see another majority: it is cut off from another node.
func (r *rebel) parts() bool {
	shift := r.random.IntN(len(r.nodes))
	d := r.between(200*time.Millisecond, 3*leaseTime)
	played := false
	for _, m := range r.seats {
		i := (m.number + shift) % len(r.nodes)
		played = r.apart(m, i, "partition", d) || played
	}
	return played
}

// apart cuts a member off from a node for a while.
func (r *rebel) apart(m *member, i int, kind string, d time.Duration) bool {
	if m.hurt[i] {
		return false
	}
	m.hurt[i] = true
	r.later(r.at(r.nodes[i], kind, m.number), d, func() {
		m.proxies[i].Refuse(false)
		m.hurt[i] = false
	})
	m.proxies[i].Refuse(true)
	m.proxies[i].CutAll()
	return true
}

// any returns a member and the number of one of its proxies, or nil.
func (r *rebel) any() (*member, int) {
	i := r.random.IntN(len(r.nodes))
	return r.anyone(func(m *member) bool { return !m.hurt[i] }), i
}

func (r *rebel) refuses() bool {
	m, i := r.any()
	return m != nil && r.apart(m, i, "refuse", r.between(100*time.Millisecond, 2*leaseTime))
}

func (r *rebel) cuts() bool {
	m, i := r.any()
	if m == nil {
		return false
	}
	t := r.at(r.nodes[i], "cut", m.number)
	m.proxies[i].CutAll()
	t.To = now()
	return true
}

func (r *rebel) halfCloses() bool {
	m, i := r.any()
	if m == nil {
		return false
	}
	t := r.at(r.nodes[i], "half-close", m.number)
	m.proxies[i].CloseHalf([]faultproxy.Half{faultproxy.ToClient, faultproxy.ToServer}[r.random.IntN(2)])
	t.To = now()
	return true
}

// freezes lets nothing pass for a while; all of it arrives later.
func (r *rebel) freezes() bool {
	m, i := r.any()
	if m == nil {
		return false
	}
	d := r.between(100*time.Millisecond, 3*leaseTime)
	if r.random.IntN(4) == 0 { // until the client gives the connection up
		d += 2 * pingEvery
	}
	m.hurt[i] = true
	r.later(r.at(r.nodes[i], "freeze", m.number), d, func() {
		m.proxies[i].Freeze(false)
		m.hurt[i] = false
	})
	m.proxies[i].Freeze(true)
	return true
}

// rule applies a rule to some requests of a member to a node, for a while.
func (r *rebel) rule(kind string, percent int, action faultproxy.Action) bool {
	m, i := r.any()
	if m == nil {
		return false
	}
	m.hurt[i] = true
	handle := m.proxies[i].Add(faultproxy.Rule{Match: some(percent), Action: action})
	r.later(r.at(r.nodes[i], kind, m.number), r.between(500*time.Millisecond, 2*leaseTime), func() {
		handle.Remove()
		m.hurt[i] = false
	})
	return true
}

// holds keeps some requests until no client expects them any more, and then has them executed.
func (r *rebel) holds() bool {
	m, i := r.any()
	if m == nil {
		return false
	}
	m.hurt[i] = true
	handle := m.proxies[i].Add(faultproxy.Rule{Match: some(10), Times: 10, Action: faultproxy.HoldRequest()})
	r.later(r.at(r.nodes[i], "hold back", m.number), r.between(500*time.Millisecond, 4*leaseTime), func() {
		handle.Remove()
		handle.Release()
		m.hurt[i] = false
	})
	return true
}
