package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/quorum"
)

// isNode reports whether the patient is a node of a quorum.
func (p *patient) isNode() bool { return p.kind == locks.Quorum }

// body is a quorum under examination.
type body struct {
	open    func() *quorum.Locker
	longest time.Duration // lease of the quorum
	nodes   []*patient
	status  []quorum.NodeStatus // of each node
	up      []bool              // the node answers
}

// examineQuorum connects to the nodes and runs all checks.
func (v *Command) examineQuorum() (found []finding, reached bool, err error) {
	if v.Plain {
		return nil, false, v.NoQuorum("--plain", "its nodes hand over by their lines, so all its locks are fair")
	}
	clients, err := v.Nodes()
	if err != nil {
		return nil, false, err
	}
	defer func() {
		for _, rdb := range clients {
			_ = rdb.Close() // the process ends
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	b := v.body(clients)
	l := b.open()
	defer l.Close()
	if b.status, err = l.Nodes(ctx); err != nil {
		return nil, false, &exit.Error{Code: exit.Usage, Err: err} // nothing was asked yet
	}
	found, reached = b.examine(ctx)
	return found, reached, nil
}

func (v *Command) body(clients []redis.UniversalClient) *body {
	b := &body{longest: cmp.Or(v.LongestLease, quorum.DefaultLongestLease)}
	b.open = func() *quorum.Locker {
		lease := quorum.WithLease(min(30*time.Second, b.longest))
		return locks.NewQuorum(&v.Connection, clients, v.Prefix, slog.New(slog.DiscardHandler), lease)
	}
	prefix := v.Prefix
	if prefix == "" {
		prefix = "quorum"
	}
	for _, rdb := range clients {
		p := &patient{rdb: rdb, kind: locks.Quorum, app: prefix, prefix: prefix}
		p.all = []*patient{p}
		b.nodes = append(b.nodes, p)
	}
	return b
}

// examine runs all checks, if a majority of nodes answers.
func (b *body) examine(ctx context.Context) (found []finding, reached bool) {
	b.up = make([]bool, len(b.nodes))
	answering := 0
	for i, p := range b.nodes {
		f := p.server(ctx)
		f.Node = b.status[i].Node
		if found = append(found, f); f.Status == good {
			b.up[i] = true
			answering++
		}
	}
	found = append(found, b.distinct())
	for i := range b.nodes {
		if b.up[i] {
			found = append(found, b.member(i))
		}
	}
	found = append(found, b.majority())
	found = b.each(ctx, found, before)
	found = append(found, b.practice(ctx))
	found = b.each(ctx, found, after)
	return append(found, b.skew()), answering > len(b.nodes)/2
}

// each adds what checks find at each node that answers.
func (b *body) each(ctx context.Context, found []finding, checks []check) []finding {
	for _, c := range checks {
		for i, p := range b.nodes {
			if b.up[i] {
				f := p.look(ctx, c)
				f.Node = b.status[i].Node
				found = append(found, f)
			}
		}
	}
	return found
}

// distinct checks that the nodes are different servers.
func (b *body) distinct() finding {
	first, known := make(map[string]string), 0
	for _, s := range b.status {
		if s.Run == "" {
			continue
		}
		if other := first[s.Run]; other != "" {
			return finding{
				Check: "distinct", Status: wrong, Found: fmt.Sprintf("%s and %s are one server, with the run id %s", other, s.Node, s.Run),
				Do: "name each server once: it has one vote, whatever its names",
			}
		}
		first[s.Run] = s.Node
		known++
	}
	if known < len(b.status) {
		return finding{
			Check: "distinct", Status: note, Found: fmt.Sprintf("%d of %d nodes tell their run ids, which differ", known, len(b.status)),
			Do: "look again when all nodes answer, and may be asked INFO",
		}
	}
	return finding{Check: "distinct", Status: good, Found: fmt.Sprintf("the nodes are %d servers: their run ids differ", known)}
}

// member checks whether a node that answers belongs to this quorum, and may grant.
func (b *body) member(i int) finding {
	s := b.status[i]
	f := finding{
		Check: "member", Node: s.Node, Status: good, Found: "belongs to this quorum, whose longest lease is " + s.LongestLease.String(),
		Figures: map[string]int64{"quarantine_us": s.Quarantine.Microseconds()},
	}
	switch {
	case s.Err != nil && s.Set != "":
		f.Status, f.Found = wrong, lua.Redacted(s.Err.Error())
		f.Do = "name the nodes, --longest-lease and --set as its users do; a node that changes its quorum is told so by fairlock quorum init --new --anyway"
		if b.misled(s) {
			f.Do = "the address leads to another node's server, or did so when this one was empty: docs/quorum.md says what to do; never quorum init, while somebody may have a lock"
		}
	case s.Err != nil:
		f.Status, f.Found, f.Do = wrong, lua.Redacted(s.Err.Error()), b.nodes[i].remedy(s.Err)
		if strings.Contains(f.Found, "info") {
			f.Do = b.nodes[i].rule()
		}
	case s.Set == "":
		f.Status, f.Found = note, fmt.Sprintf("knows of no quorum yet: from its first request on it grants nothing for %v", s.Quarantine)
		if f.Do = "nothing: it joins by itself"; b.unknown() {
			f.Do = "if the whole quorum is new: fairlock quorum init --new; if not: nothing, it joins by itself"
		}
	case s.Quarantine > 0:
		f.Status = note
		f.Found = fmt.Sprintf("grants nothing for %s: it was restarted or emptied, and may have forgotten what it granted", output.Span(s.Quarantine.Milliseconds()))
		if f.Do = "wait; and do not restart another node meanwhile"; s.Quarantine == b.rest() {
			f.Do = "it begins with the first request for a lock: start its users; and do not restart another node meanwhile"
		}
	}
	return f
}

// misled reports whether a node that is not the right one is of the same quorum as others that are.
func (b *body) misled(s quorum.NodeStatus) bool {
	return slices.ContainsFunc(b.status, func(other quorum.NodeStatus) bool {
		return other.Err == nil && other.Set == s.Set && other.LongestLease == s.LongestLease && s.Set != ""
	})
}

// unknown reports whether no node that answers belongs to any quorum: only then this one can be new.
func (b *body) unknown() bool {
	for i, s := range b.status {
		if b.up[i] && s.Set != "" {
			return false
		}
	}
	return true
}

// rest is how long a whole quarantine is. One that has begun is shorter.
func (b *body) rest() time.Duration {
	const claim = 3 * time.Second
	return max(b.longest, claim+min(claim, b.longest))
}

// able counts the nodes that can grant now.
func (b *body) able() (n int) {
	for i, s := range b.status {
		if b.up[i] && s.Err == nil && s.Quarantine == 0 {
			n++
		}
	}
	return n
}

// majority checks how many nodes may yet fail.
func (b *body) majority() finding {
	n, all := b.able(), len(b.nodes)
	f := finding{
		Check: "majority", Status: good, Found: fmt.Sprintf("all %d nodes can grant, and %d are a majority", all, all/2+1),
		Figures: map[string]int64{"nodes": int64(all), "able": int64(n)},
	}
	switch {
	case n <= all/2:
		f.Status, f.Found = wrong, fmt.Sprintf("%d of %d nodes can grant, and a majority is %d: nobody is given a lock", n, all, all/2+1)
		f.Do = "see server and member: what each of the others lacks"
	case n < all:
		f.Status, f.Found = note, fmt.Sprintf("%d of %d nodes can grant, and a majority is %d: locks bear the loss of %d more", n, all, all/2+1, n-all/2-1)
		f.Do = "see server and member: what the others lack"
	}
	return f
}

// practice does what applications do, if nothing of what is wrong would be written down by that.
func (b *body) practice(ctx context.Context) finding {
	f := finding{Check: "practice", Status: note, Found: "no lock was tried: "}
	for i, s := range b.status {
		switch {
		case b.up[i] && s.Set == "":
			f.Found += s.Node + " knows of no quorum yet, and the first request would tell it of this one"
			if f.Do = "use the quorum: it joins by itself; then look again"; b.unknown() {
				f.Do = "if the quorum is new: fairlock quorum init --new; if not, use it; then look again"
			}
			return f
		case b.up[i] && s.Err != nil:
			f.Found += "see member"
			f.Do = "look again when all nodes that answer belong to this quorum"
			return f
		}
	}
	if b.able() <= len(b.nodes)/2 {
		f.Found, f.Do = f.Found+"see majority", "look again when a majority can grant"
		return f
	}
	name, _ := b.nodes[0].practiceLock(ctx) // there is one: it is no cluster
	f = b.nodes[0].practiceWith(ctx, name, min(practiceLease, b.longest), b.open(), b.open())
	f.Check = "practice"
	return f
}

// skew compares the clocks of the nodes with each other.
func (b *body) skew() finding {
	var first, last *quorum.NodeStatus
	for i := range b.status {
		s := &b.status[i]
		if !b.up[i] || s.Err != nil && s.Set == "" {
			continue
		}
		if first == nil || s.Clock < first.Clock {
			first = s
		}
		if last == nil || s.Clock > last.Clock {
			last = s
		}
	}
	if first == last {
		return finding{Check: "skew", Status: note, Found: "not known: fewer than two nodes tell their time", Do: "look again when they do"}
	}
	skew, margin := last.Clock-first.Clock, first.Within+last.Within
	f := finding{
		Check: "skew", Status: good, Found: "the clocks of the nodes are " + apart(skew) + " apart",
		Figures: map[string]int64{"skew_us": skew.Microseconds(), "within_us": margin.Microseconds()},
	}
	if skew > farClock+margin {
		f.Status = note
		f.Found = fmt.Sprintf("the clock of %s is %s ahead of that of %s", last.Node, apart(skew), first.Node)
		f.Do = "run NTP on all: leases do not depend on it, but places in line are times of the nodes, and waiting times come out wrong"
	}
	return f
}

// alike puts findings that say the same of several nodes together, for people.
func alike(found []finding) (all []finding) {
	for _, f := range found {
		if last := len(all) - 1; last >= 0 && f.Node != "" {
			if g := &all[last]; g.Check == f.Check && g.Status == f.Status && g.Found == f.Found && g.Do == f.Do {
				g.Node += ", " + f.Node
				continue
			}
		}
		all = append(all, f)
	}
	for i, f := range all {
		if f.Node != "" {
			all[i].Found = f.Node + ": " + f.Found
		}
	}
	return all
}
