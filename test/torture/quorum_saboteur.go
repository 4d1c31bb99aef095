package torture

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/test/faultproxy"
)

// rebel is the saboteur of a quorum. All that he does to nodes is within what is promised: a node
// that loses data has another run id, or has lost its own record too.
type rebel struct {
	*senate
	deck[*rebel]
	loner int // which of the loners is next
}

// loners are played alone: there is calm before and after them.
var loners = []trick[*rebel]{
	{"node killed alone", func(r *rebel) bool { return r.killsNodes(1, itsOwn, lonely) }},
	{"node stopped alone", func(r *rebel) bool { return r.stopsNode(lonely) }},
}

const lonely = 1500 * time.Millisecond

// coups are all other tricks of a rebel.
var coups = []trick[*rebel]{
	{"kill -9", func(r *rebel) bool { return r.kills(r.anyone(active)) }},
	{"kill -9 of a holder", func(r *rebel) bool { return r.kills(r.holder()) }},
	{"kill -9 of two", (*rebel).killsTwo},
	{"SIGSTOP", func(r *rebel) bool { return r.stops(r.anyone(active)) }},
	{"SIGSTOP of a holder", func(r *rebel) bool { return r.stops(r.holder()) }},
	{"node restarted empty", func(r *rebel) bool { return r.killsNodes(1, empty, r.downtime()) }},
	{"node restarted with its AOF", func(r *rebel) bool { return r.killsNodes(1, itsOwn, r.downtime()) }},
	{"node restarted with yesterday's AOF", func(r *rebel) bool { return r.killsNodes(1, yesterday, r.downtime()) }},
	{"majority restarted", func(r *rebel) bool { return r.killsNodes(r.need(), r.state(), r.downtime()) }},
	{"all restarted", func(r *rebel) bool { return r.killsNodes(len(r.nodes), r.state(), r.downtime()) }},
	{"all restarted with yesterday's AOF", func(r *rebel) bool { return r.killsNodes(len(r.nodes), yesterday, r.downtime()) }},
	{"one after the other restarted", (*rebel).rolls},
	{"copy", (*rebel).copies},
	{"node stopped", func(r *rebel) bool { return r.stopsNode(r.between(100*time.Millisecond, 4*time.Second)) }},
	{"node stopped again", func(r *rebel) bool { return r.stopsNode(r.stop()) }},
	{"FLUSHALL", func(r *rebel) bool { return r.flushes(1) }},
	{"FLUSHALL of all", func(r *rebel) bool { return r.flushes(len(r.nodes)) }},
	{"CLIENT KILL normal", func(r *rebel) bool { return r.asks("CLIENT KILL normal", "CLIENT", "KILL", "TYPE", "normal") }},
	{"CLIENT KILL pubsub", func(r *rebel) bool { return r.asks("CLIENT KILL pubsub", "CLIENT", "KILL", "TYPE", "pubsub") }},
	{"CLIENT PAUSE", func(r *rebel) bool { return r.pauses() }},
	{"no memory", (*rebel).fills},
	{"partial partition", (*rebel).parts},
	{"cut", (*rebel).cuts},
	{"half-close", (*rebel).halfCloses},
	{"freeze", (*rebel).freezes},
	{"refuse", (*rebel).refuses},
	{"delay", func(r *rebel) bool {
		return r.rule("delay", 20, faultproxy.DelayReply(r.between(5*time.Millisecond, 1200*time.Millisecond)))
	}},
	{"drop requests", func(r *rebel) bool { return r.rule("drop", 10, faultproxy.DropRequest()) }},
	{"drop replies", func(r *rebel) bool { return r.rule("drop", 10, faultproxy.SwallowReply()) }},
	{"drop silently", func(r *rebel) bool { return r.rule("drop", 10, faultproxy.SwallowReplySilently()) }},
	{"hold back", (*rebel).holds},
}

// strike plays the next trick. Each deck begins with a loner.
func (r *rebel) strike() time.Duration {
	if len(r.left) == 0 {
		r.shuffle(r.random)
		t := loners[r.loner%len(loners)]
		r.loner++
		if t.play(r) {
			r.counts[t.name]++
		}
		return 2 * lonely
	}
	r.deal(r)
	if len(r.left) == 0 {
		return calm
	}
	return r.between(leastPause, 2*mostPause)
}

func active(m *member) bool { return !m.stopped }

// anyone returns a member that suits, or nil.
func (r *rebel) anyone(suits func(*member) bool) *member {
	for _, i := range r.random.Perm(len(r.seats)) {
		if suits(r.seats[i]) {
			return r.seats[i]
		}
	}
	return nil
}

// some returns n nodes with nothing to be undone, or fewer if there are not so many.
func (r *rebel) some(n int) (nodes []*node) {
	for _, i := range r.random.Perm(len(r.nodes)) {
		if !r.nodes[i].busy && len(nodes) < n {
			nodes = append(nodes, r.nodes[i])
		}
	}
	return nodes
}

// at notes a trouble of a node, or of a seat with a node.
func (r *rebel) at(n *node, kind string, seat int) *trouble {
	t := r.trouble(kind, seat)
	t.Node = n.number
	return t
}

// holder returns a member whose worker has a vote, or nil.
func (r *rebel) holder() *member {
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	for range 20 {
		for _, n := range r.nodes {
			if n.down {
				continue
			}
			for _, lock := range elected {
				process, _, _ := strings.Cut(note(n.admin.HGet(ctx, voteKey("lock", lock), "ticket").Val()), "-")
				if m := r.anyone(func(m *member) bool { return active(m) && m.life.Process == process }); m != nil {
					return m
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// voteKey is a key of a lock of the quorum.
func voteKey(part, lock string) string { return "quorum:" + part + ":{" + lock + "}" }

func (r *rebel) kills(m *member) bool {
	if m == nil {
		return false
	}
	t := r.trouble("kill", m.number)
	m.kill()
	t.To = now()
	r.fill(m)
	return true
}

// killsTwo kills two workers, one after the other.
func (r *rebel) killsTwo() bool {
	if !r.kills(r.anyone(active)) {
		return false
	}
	return r.kills(r.anyone(active))
}

// stops stops a worker for longer or shorter than its leases live.
func (r *rebel) stops(m *member) bool {
	if m == nil {
		return false
	}
	worker := m.worker
	r.lasting("SIGSTOP", m.number, r.between(100*time.Millisecond, 3*leaseTime), func() {
		if m.worker == worker { // not a successor
			worker.Continue()
			m.stopped = false
		}
	})
	worker.Stop()
	m.stopped = true
	return true
}

func (r *rebel) downtime() time.Duration { return r.between(0, 1500*time.Millisecond) }

// state is that of nodes to be restarted; "": each has another.
func (r *rebel) state() string {
	return append(slices.Clone(states), "")[r.random.IntN(len(states)+1)]
}

// killsNodes kills so many nodes, and restarts them with that data.
func (r *rebel) killsNodes(n int, state string, down time.Duration) bool {
	nodes := r.some(n)
	if len(nodes) < n {
		return false
	}
	for i, of := range nodes {
		its := state
		if its == "" {
			its = states[i%len(states)]
		}
		t := r.at(of, "killed, restarted "+its, everybody)
		of.busy, of.down = true, true
		of.Kill()
		r.later(t, down, func() {
			r.ok(of.restart(its))
			of.busy, of.down = false, false
		})
	}
	return true
}

// rolls restarts all nodes, each while the one before has hardly begun to forget.
func (r *rebel) rolls() bool {
	nodes := r.some(len(r.nodes))
	if len(nodes) < len(r.nodes) {
		return false
	}
	for _, of := range nodes {
		t := r.at(of, "killed, restarted "+empty, everybody)
		of.Kill()
		r.ok(of.restart(empty))
		t.To = now()
		time.Sleep(r.between(0, leaseTime/3))
	}
	return true
}

// copies keeps copies of what all nodes have, for a restart with yesterday's data.
func (r *rebel) copies() bool {
	for _, n := range r.nodes {
		r.ok(n.remember())
	}
	return true
}

// longAway is longer than anything that refuses late requests.
const longAway = 62 * time.Second

// stop is how long a node is stopped: for a minute, now and then.
func (r *rebel) stop() time.Duration {
	if r.random.IntN(4) == 0 {
		return longAway
	}
	return r.between(most, 2*most)
}

func (r *rebel) stopsNode(d time.Duration) bool {
	nodes := r.some(1)
	if len(nodes) == 0 {
		return false
	}
	n := nodes[0]
	t := r.at(n, "stopped", everybody)
	if d >= longAway {
		t.Kind = "stopped for a minute"
	}
	n.busy, n.down = true, true
	n.Pause()
	r.later(t, d, func() {
		n.Resume()
		n.busy, n.down = false, false
	})
	return true
}

func (r *rebel) flushes(n int) bool {
	nodes := r.some(n)
	if len(nodes) < n {
		return false
	}
	for _, of := range nodes {
		t := r.at(of, "FLUSHALL", everybody)
		r.ask(of, "FLUSHALL")
		t.To = now()
	}
	return true
}

// ask sends a node a command, as often as it takes while it is busy.
func (r *rebel) ask(n *node, command ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for n.admin.Do(ctx, command...).Err() != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *rebel) asks(kind string, command ...any) bool {
	nodes := r.some(1)
	if len(nodes) == 0 {
		return false
	}
	t := r.at(nodes[0], kind, everybody)
	r.ask(nodes[0], command...)
	t.To = now()
	return true
}
