package admin

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/quorum"
)

// Quorum is "fairlock quorum".
type Quorum struct {
	Init Init `cmd:"" help:"Tell the nodes of a new quorum that nobody holds anything yet."`
}

// Init is "fairlock quorum init".
type Init struct {
	locks.Keyspace
	output.Flags
	New    bool `help:"The quorum is new: nobody holds any of its locks, anywhere. Without this, nothing is changed."`
	Anyway bool `help:"Also if nodes belong to another quorum, or this one is in use: whoever holds a lock may find that somebody else has it too."`
}

// Help is the long text of "fairlock quorum init --help".
func (*Init) Help() string {
	return `Tells each node which quorum it belongs to, and that nobody holds anything. A node that is not told so waits for the
longest lease before it grants anything: it cannot know that it has forgotten nothing. So this saves the first lock of
a new quorum a minute. It is needed only for nodes of another quorum.

  fairlock quorum init --redis quorum:a:6379,b:6379,c:6379          looks, and says what it would do
  fairlock quorum init --redis quorum:a:6379,b:6379,c:6379 --new

Say --new only before the first lock, never because a node was restarted or replaced: that node waits for a reason. It is
refused if a node is away or refuses, keeps itself to another quorum, belongs to this one and has granted or waits, or has
locks. But nodes that restarted empty cannot be told from new ones: if that may be so, start their users, and wait.
--anyway is for nodes that change their quorum: stop all users of both quorums first, and wait for the longest lease.

--json: a line for each node, with node, error, run, set, number (which node of the set it is), longest_lease_ms,
quarantine_ms and locks (keys of locks that it has), as it was before; told says whether it was told.

Exit codes:
    0  all nodes were told, or the quorum is in use and there is nothing to tell
    1  nothing was changed: --new is missing, or there is a reason against it
   64  the command line makes no sense; also one server twice
   69  a node is away or refuses and nothing was changed; or not all nodes were told: the others join by themselves, after
       the longest lease, but those of another quorum want --new --anyway again
   74  standard output cannot be written`
}

// nodeRecord is a node before init, as JSON.
type nodeRecord struct {
	Node       string `json:"node"`
	Error      string `json:"error,omitempty"`
	Run        string `json:"run"`
	Set        string `json:"set"`
	Number     int    `json:"number"`
	Longest    int64  `json:"longest_lease_ms"`
	Quarantine int64  `json:"quarantine_ms"`
	Locks      int    `json:"locks"`
	Told       bool   `json:"told"`

	failed error // it does not answer
}

// grants reports whether the node belongs to the quorum and grants already.
func (n *nodeRecord) grants() bool { return n.Error == "" && n.Set != "" && n.Quarantine == 0 }

// initWithin bounds the look at the nodes.
const initWithin = 30 * time.Second

// Run is called by kong.
func (v *Init) Run() error {
	process.DropBrokenPipes()
	if !v.Quorum() {
		return exit.Errorf(exit.Usage, "quorum init wants a quorum: --redis quorum:HOST,HOST,HOST")
	}
	clients, err := v.Nodes()
	if err != nil {
		return err
	}
	l := locks.NewQuorum(&v.Connection, clients, v.Prefix, slog.New(slog.DiscardHandler))
	defer func() {
		_ = l.Close() // never fails
		for _, rdb := range clients {
			_ = rdb.Close() // the process ends
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), initWithin)
	defer cancel()
	nodes, err := v.look(ctx, l, clients)
	if err != nil {
		return err
	}
	verdict := v.judge(nodes)
	if verdict == nil && v.New && !inUse(nodes) {
		verdict = v.init(ctx, l, nodes)
	}
	err = v.tell(nodes, verdict == nil)
	if slices.ContainsFunc(nodes, func(n nodeRecord) bool { return n.Told }) {
		err = output.Done(err, "nodes were told")
	}
	if err != nil {
		return err
	}
	return verdict
}

// look asks the nodes how they are, and changes nothing.
func (v *Init) look(ctx context.Context, l *quorum.Locker, clients []redis.UniversalClient) (nodes []nodeRecord, err error) {
	all, err := l.Nodes(ctx)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: err} // about the flags: nothing was asked yet
	}
	runs := make(map[string]string)
	for _, s := range all {
		if other := runs[s.Run]; s.Run != "" && other != "" {
			return nil, exit.Errorf(exit.Usage, "%s and %s are one server", other, s.Node)
		}
		runs[s.Run] = s.Node
		n := nodeRecord{Node: s.Node, Run: s.Run, Set: s.Set, Number: s.Number, Longest: s.LongestLease.Milliseconds(), Quarantine: s.Quarantine.Milliseconds()}
		if s.Err != nil {
			n.Error = lua.Redacted(s.Err.Error())
		}
		if s.Set == "" {
			n.failed = s.Err
		}
		nodes = append(nodes, n)
	}
	v.counts(ctx, nodes, clients)
	return nodes, nil
}

// counts counts the locks of the nodes that answer, side by side: a node may have many keys.
func (v *Init) counts(ctx context.Context, nodes []nodeRecord, clients []redis.UniversalClient) {
	var all sync.WaitGroup
	for i := range nodes {
		if n := &nodes[i]; n.failed == nil {
			all.Go(func() { n.Locks, n.failed = v.count(ctx, clients[i]) })
		}
	}
	all.Wait()
}

// count counts the keys of locks that a node has.
func (v *Init) count(ctx context.Context, rdb redis.UniversalClient) (n int, err error) {
	prefix := v.Prefix
	if prefix == "" {
		prefix = locks.Quorum
	}
	scan := rdb.Scan(ctx, 0, lua.ScanPattern(prefix), 1000).Iterator()
	for scan.Next(ctx) {
		if _, _, err := lua.Named(prefix, scan.Val()); err == nil {
			n++
		}
	}
	return n, scan.Err()
}

// inUse reports whether all nodes grant already.
func inUse(nodes []nodeRecord) bool {
	return !slices.ContainsFunc(nodes, func(n nodeRecord) bool { return !n.grants() })
}

// judge returns why the nodes must not be told, or nil.
func (v *Init) judge(nodes []nodeRecord) error {
	var against []string
	for _, n := range nodes {
		switch {
		case n.failed != nil:
			return exit.Errorf(exit.Unavailable, "nothing was changed: %s: %w", n.Node, n.failed)
		case n.Error != "":
			against = append(against, n.Node+": "+n.Error)
		case n.Set != "" && n.Quarantine > 0: // as all of them after a power cut
			against = append(against, n.Node+" belongs to this quorum and may have forgotten what it granted: wait, once its users run, for the time begins with their first request")
		case n.grants():
			against = append(against, n.Node+" grants already: the quorum is in use, and a node that does not grant yet joins by itself")
		}
		if n.Locks > 0 {
			against = append(against, n.Node+" has "+output.Count(n.Locks, "lock"))
		}
	}
	switch {
	case inUse(nodes):
		return nil
	case len(against) > 0 && !v.Anyway:
		return exit.Errorf(exit.Nothing, "nothing was changed: %s", strings.Join(against, "; "))
	case !v.New:
		return exit.Errorf(exit.Nothing, "nothing was changed: say --new if nobody has ever had a lock of this quorum")
	}
	return nil
}

// init tells the nodes, and finds out which of them know now.
func (v *Init) init(ctx context.Context, l *quorum.Locker, nodes []nodeRecord) (failed error) {
	if err := l.Init(ctx); err != nil {
		failed = exit.Errorf(exit.Unavailable, "%w", err)
	}
	all, err := l.Nodes(ctx)
	if err != nil {
		return exit.Errorf(exit.Unavailable, "%w", err)
	}
	for i, s := range all {
		nodes[i].Told = s.Err == nil && s.Set != "" && s.Quarantine == 0
	}
	return failed
}

// tell prints how the nodes were, and what was done. Whatever was against it is reported as an
// error.
func (v *Init) tell(nodes []nodeRecord, well bool) error {
	p := v.Page()
	lines := output.Table{Bends: 1}
	lines.Add("NODE", "BEFORE", "LOCKS", "NOW")
	for i := range nodes {
		n := &nodes[i]
		p.Object(n)
		now := "as before"
		if n.Told {
			now = p.Paint(output.Green, "grants")
		}
		lines.Add(output.Clean(n.Node), n.before(), strconv.Itoa(n.Locks), now)
	}
	p.Table(lines)
	if well && inUse(nodes) {
		p.Say("the quorum is in use: there is nothing to tell")
	}
	return p.Print()
}

// before says how a node was, for people.
func (n *nodeRecord) before() string {
	switch {
	case lua.Answered(n.failed):
		return "refuses"
	case n.failed != nil:
		return "away"
	case n.Error != "":
		return "is not that node of this quorum"
	case n.Set == "":
		return "knows of no quorum"
	case n.Quarantine > 0:
		return "grants nothing for " + output.Span(n.Quarantine)
	}
	return "grants"
}
