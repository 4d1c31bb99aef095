package majority

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// node is one of the servers. World.mu guards all that changes.
type node struct {
	*stage.Server[*conn]
	w    *World
	i    int
	name string
	// Its clock, from ours: how far it is away, and by how much it runs faster.
	offset time.Duration
	drift  float64

	life      int // counts its starts
	runID     string
	down      bool
	hangs     int // it executes nothing: the faults that stop it
	slow      time.Duration
	backlog   []func()  // requests that reached it while it hung
	lost      time.Time // when it last lost data
	misnamed  int       // how many names of others lead to it: it must not forget its own now
	troubled  time.Time // when a fault last affected it
	snapshots []snapshot
}

// driftAtMost is how much faster or slower than a client's a node's clock runs. The margin is 10 %
// of a lease, at least 10 ms; steps of a clock take up a part of it.
const driftAtMost = 0.02

// tack is how long a clock drifts in one direction where clocks are kept together.
const tack = 10 * time.Second

func newNode(w *World, i int) *node {
	r := rand.New(rand.NewPCG(w.plan.Seed, uint64(100+i))) //nolint:gosec // it is small
	n := &node{w: w, i: i, name: fmt.Sprintf("n%d", i+1), troubled: w.start, lost: w.start}
	around := func(d time.Duration) time.Duration { return stage.Span(r, -d, d) }
	n.offset = around(20 * time.Millisecond)
	if w.plan.Apart {
		n.offset = []time.Duration{n.offset, around(5 * time.Second), around(time.Minute), around(3 * time.Hour)}[r.IntN(4)]
	}
	n.drift = (2*r.Float64()-1)*driftAtMost + w.plan.Break.Drift
	n.Server = stage.NewServer[*conn](n.now)
	n.Alter, n.Hook = w.plan.Break.Script, n.hook
	n.begins()
	return n
}

// now is what the node's clock shows.
func (n *node) now() time.Time {
	since := time.Since(n.w.start)
	if back := since % (2 * tack); !n.w.plan.Apart { // somebody keeps the clocks together
		since = min(back, 2*tack-back)
		return time.Now().Add(n.offset + time.Duration(float64(since)*n.drift)).UTC()
	}
	return n.w.start.Add(since + n.offset + time.Duration(float64(since)*n.drift)).UTC()
}

// begins gives the process of the node a run id.
func (n *node) begins() {
	n.life++
	if n.life == 1 || !n.w.plan.Break.OneRun {
		n.runID = fmt.Sprintf("%040x", stage.Mix(n.w.plan.Seed<<16|uint64(n.i)<<12|uint64(n.life))) //nolint:gosec // it is not negative
	}
}

// hook answers INFO, which in miniredis says no run id.
func (n *node) hook(p *server.Peer, cmd string, _ ...string) bool {
	if cmd == "INFO" {
		p.WriteBulk("# Server\r\nrun_id:" + n.runID + "\r\n")
	}
	return cmd == "INFO"
}

// trouble notes that a fault affects the node now.
func (n *node) trouble() { n.troubled = time.Now() }

// works reports whether nothing disturbs the node now.
func (n *node) works() bool { return !n.down && n.hangs == 0 && n.slow == 0 }

// grants reports whether the node may grant something now: it does not know of having lost
// anything.
func (n *node) grants() bool {
	key := prefix + ":node"
	from, _ := strconv.ParseInt(n.Mini.HGet(key, "from"), 10, 64)
	return n.Mini.HGet(key, "run") == n.runID && from <= n.now().UnixMilli()
}

// hang stops the process of the node, as SIGSTOP would: the kernel goes on taking what comes.
func (n *node) hang() (goesOn func()) {
	n.hangs++
	n.trouble()
	return func() {
		n.hangs--
		n.trouble()
		if n.hangs > 0 {
			return
		}
		backlog := n.backlog
		n.backlog = nil
		for i, f := range backlog {
			n.w.after(time.Duration(i+1)*(3*time.Microsecond+17)+time.Duration(n.i), func() { n.takes(f) })
		}
	}
}

// takes has the node execute something now, or when it goes on.
func (n *node) takes(f func()) {
	if n.hangs > 0 {
		n.backlog = append(n.backlog, f)
		return
	}
	f()
}

// dies ends the process of the node and all its connections.
func (n *node) dies() {
	n.down, n.backlog = true, nil
	n.trouble()
	for _, c := range n.w.clients {
		l := c.links[n.i]
		for _, conn := range l.conns {
			conn.mute, conn.Gone, conn.Channels = true, true, 0
			n.w.after(n.w.latency(n.w.draw(c.id, uint64(n.i), 20)), func() { conn.fail(stage.ErrReset) }) //nolint:gosec // it is small
		}
	}
	n.Restart(false)
}

// loses notes that the node has lost data.
func (n *node) loses() {
	n.lost = time.Now()
	n.trouble()
}

// flush is FLUSHALL.
func (n *node) flush() {
	n.Mini.FlushAll()
	n.loses()
}

// snapshot is the data of a node at one time, with ends by its clock.
type snapshot struct {
	at       time.Time
	commands [][]string
}

// remembers is for how long a node keeps snapshots.
const remembers = 5 * time.Minute

// snap takes a snapshot.
func (n *node) snap() {
	n.Look()
	s := snapshot{at: time.Now()}
	for _, key := range n.Mini.Keys() {
		var command []string
		switch n.Mini.Type(key) {
		case "hash":
			fields, _ := n.Mini.HKeys(key)
			command = []string{"HSET", key}
			for _, field := range fields {
				command = append(command, field, n.Mini.HGet(key, field))
			}
		case "zset":
			members, _ := n.Mini.SortedSet(key)
			command = []string{"ZADD", key}
			for member, score := range members {
				command = append(command, strconv.FormatFloat(score, 'f', -1, 64), member)
			}
		case "string":
			value, _ := n.Mini.Get(key)
			command = []string{"SET", key, value}
		}
		s.commands = append(s.commands, command)
		if ttl := n.Mini.TTL(key); ttl > 0 {
			s.commands = append(s.commands, []string{"PEXPIREAT", key, strconv.FormatInt(n.now().Add(ttl).UnixMilli(), 10)})
		}
	}
	n.snapshots = append(slices.DeleteFunc(n.snapshots, func(s snapshot) bool { return time.Since(s.at) > remembers }), s)
}

// restores gives the node the data of a snapshot.
func (n *node) restores(s snapshot) {
	n.Look()
	n.Mini.FlushAll()
	for _, command := range s.commands {
		if reply := n.Dispatch(stage.NewPeer(), command); reply[0] == '-' {
			panic(fmt.Sprintf("%q: %s", command, reply))
		}
	}
	n.loses()
}

// state is a lock as a node has it.
type state struct {
	ticket  string // who has the vote; empty: nobody
	token   int64
	decided bool
	last    int64 // the largest token
	line    []place
	naked   []string // keys without an end
}

type place struct {
	ticket string
	at     int64
}

func (s *state) waits(ticket string) bool {
	return slices.ContainsFunc(s.line, func(p place) bool { return p.ticket == ticket })
}

// read looks at a lock without a trace on the node.
func (n *node) read(k lua.Keys) *state {
	n.Look()
	s := &state{ticket: n.Mini.HGet(k.Record(), "ticket"), decided: n.Mini.HGet(k.Record(), "decided") != ""}
	s.token, _ = strconv.ParseInt(n.Mini.HGet(k.Record(), "token"), 10, 64)
	text, _ := n.Mini.Get(k.Token())
	s.last, _ = strconv.ParseInt(text, 10, 64)
	line, _ := n.Mini.SortedSet(k.Queue())
	for ticket, at := range line {
		s.line = append(s.line, place{ticket, int64(at)})
	}
	slices.SortFunc(s.line, func(p, q place) int {
		if p.at != q.at {
			return int(max(-1, min(1, p.at-q.at)))
		}
		return strings.Compare(p.ticket, q.ticket)
	})
	for _, key := range []string{k.Record(), k.Queue(), k.Waiters(), k.Token()} {
		if n.Mini.Exists(key) && n.Mini.TTL(key) <= 0 {
			s.naked = append(s.naked, key)
		}
	}
	return s
}
