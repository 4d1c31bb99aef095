// Package doctor examines a server as a home of locks. It says what is wrong and what to do about
// it.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/lua"
)

// Command is "fairlock doctor".
type Command struct {
	locks.Selection
	output.Flags
}

// Help is the long text of "fairlock doctor --help".
func (*Command) Help() string {
	return `Looks at a server as the home of locks, and says of everything that it finds what to do about it. Nothing is changed,
but that two lockers in here take, wait for, hand over, evict and force a lock called fairlock-doctor- and a random
name, of a cluster one at each master; what is left of it expires by itself within minutes. Where no Locker has been
before, PREFIX:protocol is left.

  ok     as it should be
  note   worth knowing, or could not be found out
  wrong  locks are slow, refused or lost because of this

Of a quorum it looks at each node, and at all together: whether they are different servers, belong to this quorum, can
grant, and how far their clocks are apart. It takes locks there only if all nodes that answer belong to it already.

--json: a line for each check, with check (server, version, topology, rights, practice, latency,
clock, eviction, persistence, keyspace; of a quorum also distinct, member, majority and skew), node (of a
quorum, or a master of a cluster, if it is about one), status (ok, note, wrong), found, do (what to do, if anything) and figures.

Exit codes:
    0  nothing is wrong
    1  something is
   64  the command line makes no sense
   69  the server, or a majority of the nodes, cannot be reached or used; what is known is printed all the same
   74  standard output cannot be written`
}

// status is the verdict on a finding.
type status string

const (
	good  status = "ok"
	note  status = "note"
	wrong status = "wrong"
)

// finding is the result of a check. The names of its JSON fields must stay.
type finding struct {
	Check   string           `json:"check"`
	Node    string           `json:"node,omitzero"` // of a quorum, or a master of a cluster
	Status  status           `json:"status"`
	Found   string           `json:"found"`
	Do      string           `json:"do,omitzero"`
	Figures map[string]int64 `json:"figures,omitzero"` // durations are whole microseconds
}

// patient is the server under examination, or one node of a quorum.
type patient struct {
	rdb    redis.UniversalClient
	node   string               // of a master of a cluster: its address
	whole  *redis.ClusterClient // of a master of a cluster: the whole cluster
	all    []*patient           // of a cluster: its masters that answer; else the server itself
	info   map[string]string    // the answer to INFO; empty if the user may not ask
	denied error                // why info is empty
	kind   string               // of the locks that practice uses
	app    string               // the prefix of these locks, as Lockers get it
	prefix string               // what the keys of these locks begin with
	clock  *clockReading        // the first reading
}

// within bounds the whole examination: a server that is slower is a finding.
const within = 30 * time.Second

// Run is called by kong.
func (v *Command) Run() error {
	if err := lua.CheckPrefix(cmp.Or(v.Prefix, ownPrefix)); err != nil {
		return exit.Errorf(exit.Usage, "--prefix: %w%s", err, server.Exported("FAIRLOCK_PREFIX"))
	}
	examine := v.examine
	if v.Quorum() {
		examine = v.examineQuorum
	}
	found, reached, err := examine()
	if err != nil {
		return err
	}
	if err := v.tell(found); err != nil {
		return err
	}
	switch n := amount(found, wrong); {
	case !reached:
		return &exit.Error{Code: exit.Unavailable}
	case n > 0:
		return &exit.Error{Code: exit.Broken}
	}
	return nil
}

// examine connects to the server and runs all checks.
func (v *Command) examine() (found []finding, reached bool, err error) {
	rdb, err := v.Connection.Open()
	if err != nil {
		return nil, false, err
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	prefix := cmp.Or(v.Prefix, ownPrefix)
	p := &patient{rdb: rdb, kind: v.Kind(), app: prefix, prefix: prefix}
	if v.Plain {
		p.prefix += plainKeys
	}
	found, reached = p.examine(ctx)
	if reached {
		found[0].Found = v.String() + " " + answers
	} else {
		found[0].Found = v.String() + ": " + found[0].Found
	}
	return found, reached, nil
}

// The default beginning of keys, and what follows it in the keys of plain locks.
const (
	ownPrefix = "fairlock"
	plainKeys = ":plain"
)

// examine runs all checks, if the server answers at all.
func (p *patient) examine(ctx context.Context) (found []finding, reached bool) {
	first := p.server(ctx)
	if first.Status == wrong {
		return []finding{first}, false
	}
	found = append(found, first)
	found = append(found, p.meet(ctx)...)
	for _, c := range slices.Concat(before, []check{{"practice", (*patient).practice, true}}, after) {
		at := []*patient{p}
		if c.each {
			at = p.all
		}
		for _, server := range at {
			f := server.look(ctx, c)
			f.Node = server.node
			found = append(found, f)
		}
	}
	return found, true
}

// meet notes the servers under examination: of a cluster its masters. It returns what is found of
// those that do not answer.
func (p *patient) meet(ctx context.Context) (away []finding) {
	cluster, ok := p.rdb.(*redis.ClusterClient)
	if !ok {
		p.all = []*patient{p}
		return nil
	}
	var mu sync.Mutex // guards p.all and away
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error {
		m := &patient{rdb: rdb, node: rdb.Options().Addr, whole: cluster, kind: p.kind, app: p.app, prefix: p.prefix}
		f := m.server(ctx)
		f.Node = m.node
		mu.Lock()
		defer mu.Unlock()
		if f.Status == good {
			p.all = append(p.all, m)
		} else {
			away = append(away, f)
		}
		return nil
	})
	slices.SortFunc(p.all, func(a, b *patient) int { return strings.Compare(a.node, b.node) })
	slices.SortFunc(away, func(a, b finding) int { return strings.Compare(a.Node, b.Node) })
	return away
}

// check is one thing to look at.
type check struct {
	name string
	look func(*patient, context.Context) finding
	each bool // of a cluster it is made at each master
}

// The checks before and after practice.
var (
	before = []check{{"version", (*patient).version, true}, {"topology", (*patient).topology, false}, {"rights", (*patient).rights, true}}
	after  = []check{
		{"latency", (*patient).latency, true},
		{"clock", (*patient).clocks, true},
		{"eviction", (*patient).eviction, true},
		{"persistence", (*patient).persistence, true},
		{"keyspace", (*patient).keyspace, false},
	}
)

func (p *patient) look(ctx context.Context, c check) finding {
	f := c.look(p, ctx)
	f.Check = c.name
	return f
}

// answers is what is found of a server that does.
const answers = "answers"

// server checks whether the server answers, and reads INFO.
func (p *patient) server(ctx context.Context) finding {
	if err := p.rdb.Ping(ctx).Err(); err != nil {
		return finding{Check: "server", Status: wrong, Found: lua.Redacted(err.Error()), Do: remedy(err)}
	}
	var text string
	text, p.denied = p.rdb.Info(ctx).Result()
	p.info = fieldsOf(text)
	p.clock = readClock(ctx, p.rdb)
	return finding{Check: "server", Status: good, Found: answers}
}

// tell prints the findings.
func (v *Command) tell(found []finding) error {
	p := v.Page()
	const indent = len("wrong  persistence  ")
	colours := map[status]string{good: output.Green, note: output.Yellow, wrong: output.Red}
	for _, f := range found {
		p.Object(f)
	}
	for _, f := range alike(found) {
		p.Say("%s  %-11s  %s", p.Paint(colours[f.Status], fmt.Sprintf("%-5s", f.Status)), f.Check, p.Wrapped(output.Clean(f.Found), indent))
		if f.Do != "" {
			p.Say("%*s%s", indent, "", p.Dim("-> ")+p.Wrapped(output.Clean(f.Do), indent+len("-> ")))
		}
	}
	p.Say("")
	p.Say("%d ok, %s, %d wrong", amount(found, good), output.Count(amount(found, note), "note"), amount(found, wrong))
	return p.Print()
}

func amount(found []finding, s status) (n int) {
	for _, f := range found {
		if f.Status == s {
			n++
		}
	}
	return n
}
