package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// silence is how old a node's oldest unanswered request may be. Calls do not ask an older node, and
// nobody waits for it. It is by node, for a call is over sooner than this.
const silence = 250 * time.Millisecond

// hush is after how long a node to which a request is being sent counts as silent.
const hush = silence + 2*time.Millisecond

// node is one master. It is away when it is silent, or its last request failed: then only probes
// are sent, until one is answered. Requests from before that probe say nothing of the node any
// more: their connections may have died, or their answers been lost.
type node struct {
	i       int
	number  int    // of the set's nodes: see settings.numberOf
	seat    string // which node of which set it is, as it keeps it
	arg     any    // the same, as scripts get it
	channel string // on which it tells this process what it grants
	rdb     redis.UniversalClient
	server  *lua.Server
	hub     *pubsub.Hub
	logger  *slog.Logger
	spawn   func(func())
	meet    func(context.Context) error // finds out whether it is that node
	back    func(i int)                 // the node answers again; it is called with no mutex held
	ended   <-chan struct{}

	mu      sync.Mutex  // guards what follows; nothing is sent under it
	open    []time.Time // when the requests were sent that are not answered, and count
	heard   time.Time   // requests from before then count no more: when the latest answered probe was sent
	failed  bool        // the last request failed, or the node was never met
	refused bool        // by an answer
	probing bool
	flapped engine.Backoff // before a first probe; it begins anew with a node that was there for a while
	since   time.Time      // when a probe last found the node back
	there   time.Time      // when it last answered
	why     error          // of failed
	known   string         // the run id that it said last
	usual   time.Duration  // how long its answers take, about
	session uint64         // of the subscription: how often it came up
}

// run runs a script on the node.
func (n *node) run(ctx context.Context, sc lua.Script, keys []string, args ...any) ([]any, error) {
	return n.send(ctx, n.server, sc, sc.Command(keys, args...))
}

// send runs a command of a script, by one of the node's Servers.
func (n *node) send(ctx context.Context, by *lua.Server, sc lua.Script, command []any) (reply []any, err error) {
	r := n.begins()
	defer r.ends()
	if ctx == context.Background() { // else the user's context may be what ends the goroutine
		r.err, r.failed, r.told = lua.ErrCutShort, true, true // unless RunCommand returns
	}
	reply, err = by.RunCommand(ctx, sc, command)
	if lua.Says(err, "OTHERNODE") {
		err = definite{fmt.Errorf("%w: %w", errOther, err)}
	}
	r.comesOf(ctx, err)
	return reply, err
}

// scan is one page of a SCAN.
func (n *node) scan(ctx context.Context, cursor, match string) (keys []string, next string, err error) {
	const count = 100
	r := n.begins()
	defer r.ends()
	keys, next, err = n.server.ScanPage(ctx, cursor, match, count)
	r.comesOf(ctx, err)
	return keys, next, err
}

// request is one that is under way to a node.
type request struct {
	*node
	began   time.Time
	err     error
	failed  bool
	refused bool
	told    bool // what came says something of the node
}

// begins notes that a request goes out.
func (n *node) begins() request {
	r := request{node: n, began: time.Now()}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, r.began)
	return r
}

// comesOf takes in what came of the request. The node is not to blame for one that failed as ctx
// ended.
func (r *request) comesOf(ctx context.Context, err error) {
	r.err, r.refused = err, lua.Answered(err) && !is(err, errOther) // another node is asked nothing more
	r.failed = err != nil && (!r.refused || lua.Passing(err))
	r.told = !r.failed || !lua.Over(ctx)
}

// ends notes that the request is over, also if the user's context has panicked.
func (r *request) ends() {
	r.mu.Lock()
	if k := slices.Index(r.open, r.began); k >= 0 {
		r.open = slices.Delete(r.open, k, k+1)
	}
	r.usual += (time.Since(r.began) - r.usual) / 8
	r.told = r.told && !r.began.Before(r.heard)
	_, other := r.why.(definite) //nolint:errorlint // it may hold a user's error
	if r.told && !other {        // another node answers, too: only a probe finds the right one back
		r.node.failed, r.node.refused, r.why = r.failed, r.refused, r.err
	}
	if (r.err == nil || r.refused) && !r.node.failed {
		r.there = time.Now()
	}
	r.mu.Unlock()
	if r.told && r.err != nil {
		r.away() // begins to probe
	}
}

// away reports whether the node is not to be asked now. If so, it is probed until it answers.
func (n *node) away() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.failed && !n.silent() {
		return false
	}
	if !n.probing && !engine.IsClosed(n.ended) { // else a Close would wait for the probe
		n.probing = true
		why := n.why
		if !n.failed {
			why = errSilent
		}
		n.spawn(func() { n.probe(why) })
	}
	return true
}

// isAnother notes that the server is another node. It is asked nothing until a probe finds that it
// is not.
func (n *node) isAnother(why error) {
	n.mu.Lock()
	n.failed, n.refused, n.why = true, false, why
	n.mu.Unlock()
	n.away()
}

// listens reports whether the node is to be asked for calls that have the lock, or a place in line:
// also if it is away because it refused a request. A full node refuses newcomers and nobody else.
func (n *node) listens() bool {
	if !n.away() {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed && n.refused && !n.silent()
}

// errSilent says that a node has a request that it has not answered for too long.
var errSilent = fmt.Errorf("no answer within %v", silence)

// met takes in what a node said of itself: its run id, and for how long it grants nothing.
func (n *node) met(run string, wait time.Duration) {
	n.mu.Lock()
	another := n.known != run
	n.known = run
	n.mu.Unlock()
	if another && wait > 0 {
		n.logger.Warn("fairlock: a node has lost what it granted, or is new: it grants nothing for now", "run", run, "for", wait)
	}
}

// quiet is how long the node has not answered.
func (n *node) quiet() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.there)
}

// silent reports whether a request has gone unanswered for too long. n.mu must be held.
func (n *node) silent() bool {
	return len(n.open) > 0 && time.Since(n.open[0]) > silence
}

// falls is in what time the node will be silent, unless it answers; 0: it is, or has answered.
func (n *node) falls() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.open) == 0 {
		return 0
	}
	return max(0, time.Until(n.open[0].Add(hush)))
}

// reason is why the node is away.
func (n *node) reason() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failed && n.why != nil {
		return n.why
	}
	return errSilent
}

// reasons is why each node is of no use that has not answered, as far as that is known.
func (l *Locker) reasons() []error {
	all := make([]error, len(l.nodes))
	for i, n := range l.nodes {
		all[i] = n.reason()
	}
	return all
}

// absent is why nodes are away; nil of those that are not.
func (l *Locker) absent() []error {
	all := l.reasons()
	for i := range all {
		if !l.away(i) {
			all[i] = nil
		}
	}
	return all
}

// unreachable is why no majority of the nodes can be reached; nil: one can.
func (l *Locker) unreachable() error {
	there := 0
	for i := range l.nodes {
		if !l.away(i) {
			there++
		}
	}
	if there >= l.need() {
		return nil
	}
	return redact.Error(byNode(l.absent()))
}

// byNode is the error that says of each node why it is of no use; nil of those that are.
func byNode(reasons []error) (all error) {
	for i, err := range reasons {
		if err != nil {
			all = errors.Join(all, fmt.Errorf("node %d: %w", i+1, err))
		}
	}
	return all
}

// Pooled connections may have died unnoticed, because a firewall has forgotten them. Then the
// client waits for its own timeout with each, and another probe takes another connection, and then
// a new one. So many probes may be under way to a node at once, and one more begins after that
// pause. They are no more than the pool has room for. To a client without timeouts there is one:
// what it gives up stays with the client for ever.
const (
	probes     = 32
	probePause = 100 * time.Millisecond
)

// probed is what came of a probe that was sent then.
type probed struct {
	asked time.Time
	err   error
}

// probe returns when the node answers again, or the Locker is closed.
func (n *node) probe(why error) {
	began := time.Now()
	n.logger.Warn("fairlock: a node of the quorum is away; nobody waits for it", "error", redact.Error(why))
	if !n.wait(n.flaps()) {
		return
	}
	answers, most := make(chan probed, probes), probes
	if client, ok := n.rdb.(*redis.Client); ok {
		most = min(most, client.Options().PoolSize)
	}
	if n.server.Bound() == 0 {
		most = 1
	}
	var last time.Time // when the latest probe was sent
	said, under := false, 0
	backoff, next := engine.Backoff{}, time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-n.ended:
			return
		case <-next.C:
			if under < most {
				last, under = time.Now(), under+1
				n.asks(last, answers)
			}
			next.Reset(probePause)
		case p := <-answers:
			under--
			if n.judges(p.err, last) {
				n.logger.Info("fairlock: a node of the quorum answers again", "away", time.Since(began).Round(time.Millisecond))
				n.back(n.i)
				return
			}
			if is(p.err, errOther) && !said {
				said = true
				n.logger.Warn("fairlock: a node of the quorum answers again, and is another one", "error", p.err)
			}
			if time.Since(p.asked) < silence { // else its connection had died
				next.Reset(backoff.Next())
			}
		}
	}
}

// asks sends a probe. answers has room for what comes of it.
func (n *node) asks(at time.Time, answers chan<- probed) {
	n.spawn(func() {
		p := probed{at, lua.ErrCutShort} // unless meet returns
		defer func() { answers <- p }()
		p.err = n.meet(context.Background())
	})
}

// judges takes in what came of a probe, and reports whether the node is back. Then no request
// counts any more that was sent before the last probe.
func (n *node) judges(err error, last time.Time) (back bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil { // also if it answered: it may be another quorum's by now
		n.failed, n.refused, n.why = true, n.refused && !is(err, errOther), err
		return false
	}
	n.forgive(last)
	if n.silent() {
		return false
	}
	n.probing, n.failed, n.why, n.since = false, false, nil, time.Now()
	return true
}

// forgive has requests from before that time count no more. n.mu must be held.
func (n *node) forgive(before time.Time) {
	n.heard = before
	n.open = slices.DeleteFunc(n.open, func(sent time.Time) bool { return sent.Before(before) })
}

// flaps is how long to wait before the first probe: a node may answer probes, and nothing else.
func (n *node) flaps() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.since) > time.Second {
		n.flapped = engine.Backoff{}
		return 0
	}
	return n.flapped.Next()
}

// wait reports whether that time has passed before the Locker was closed.
func (n *node) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-n.ended:
		return false
	}
}
