package quorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// Locker gives out fair locks that a majority of nodes keeps. One Locker per process and quorum is
// enough. Its methods are safe for concurrent use.
type Locker struct {
	settings
	nodeKey  string                            // the key of a node's own record
	channels string                            // what the clients' channels begin with
	args     struct{ node, id, set, most any } // as scripts get them
	core     *engine.Core
	crew     *crew
	nodes    []*node
	draining chan struct{} // closed by Shutdown and Close: ends calls not made under a hold
	closing  chan struct{} // closed by Close
	looked   atomic.Bool   // a look has found a majority
	joined   atomic.Bool   // a lock was asked for: nodes are told of the quorum, and not only looked at

	mu      sync.Mutex       // guards all below, and what call and line say it guards
	calls   map[uint64]*call // that wait, hold or release
	lines   map[string]*line // by record key
	counts  uint64           // how often the votes for a hold were counted: what the Core hears last need not be the latest
	listens bool
}

// strategy is the Locker as its Core sees it: also its protocol.
type strategy struct{ *Locker }

// New returns a Locker on these nodes: masters that do not replicate each other, each by a client of
// its own. Each is a *redis.Client, not a wrapper of one, whose Options().Addr differs from the
// others'. So a client of Sentinel is none: to all of those, go-redis gives one Addr. Everybody who
// shares locks gives the same nodes. The clients stay the caller's to close, after the Locker. New
// does no I/O: if something is wrong with an option or a node, every call returns that error.
func New(nodes []redis.UniversalClient, options ...Option) *Locker {
	l := &Locker{
		settings: newSettings(nodes, options),
		draining: make(chan struct{}), closing: make(chan struct{}),
		calls: make(map[uint64]*call), lines: make(map[string]*line),
	}
	var first redis.UniversalClient
	if len(nodes) > 0 {
		first = nodes[0]
	}
	l.core = engine.New(first, "quorum", lua.NewServer, strategy{l}, l.engine)
	l.settings.prefix = l.core.Settings.Prefix
	l.nodeKey, l.channels = l.prefix+":node", lua.Channels(l.prefix)
	l.args.node, l.args.id, l.args.set, l.args.most = l.nodeKey, l.core.ID, l.set, decimal(l.most.Milliseconds())
	l.crew = newCrew(l.core, 4*len(nodes))
	for i, rdb := range nodes {
		logger := l.core.Settings.Logger.With("node", nameOf(i, rdb))
		n := &node{
			i: i, rdb: rdb, server: lua.NewServer(rdb, l.channels, l.core.ID), hub: pubsub.New(rdb, logger),
			logger: logger, spawn: l.core.Go, back: l.returned, ended: l.closing,
		}
		n.server.Spawn(l.core.Go, l.closing)
		if l.core.Settings.Simulated() { // or the order of goroutines would decide what goes out together
			n.server.Apart()
		}
		n.meet = func(ctx context.Context) error { // the prober has to go on though a hook ends a goroutine
			return l.core.Whole(func() error { return l.probe(ctx, n) })
		}
		l.nodes = append(l.nodes, n)
	}
	return l
}

// Lock waits in line until a majority of nodes has given it the lock, or ctx is done. Its errors:
//
//	*WaitError      ctx ended, or WaitAtMost passed while no node said anything; wraps the context's
//	                error
//	ErrHeld         WaitAtMost passed (*HeldError)
//	ErrQueueFull    MaxWaiters were waiting at so many nodes that no majority is left
//	ErrEvicted      somebody called Evict; or ForceUnlock, before the call knew that it has the lock
//	ErrUnreachable  it is the Locker's first call, and no majority of the nodes answers
//	ErrLost         the lock was had and lost before the call could return: only of a call that
//	                does not wait, that is nested, or whose ctx has ended
//	ErrInvalid      the name or an option makes no sense
//	ErrClosed       the Locker was closed, or is shutting down
//	errors.ErrUnsupported  this kind of lock, or the client of a node, cannot do it
//	other           the nodes' or the connections'
func (l *Locker) Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "lock", name, false, options)
}

// TryLock takes the lock if a majority of nodes has it free, and nobody waits for it there. If the
// votes are split among calls that try at once, it stands in line for at most 250 ms, and the
// oldest has the lock.
//
// If TryLock reaches no majority, it fails after 250 ms with ErrUnreachable: connections may be
// found broken, and nodes be there. The Locker's first call may have to connect, and takes up to
// 5 s for that.
func (l *Locker) TryLock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "trylock", name, true, options)
}

// Do runs fn under the lock and releases the lock when fn returns or panics.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, options ...LockOption) error {
	return l.core.Do(ctx, name, fn, options)
}

// LockAll waits until it has all the locks, in one order for everybody, or ctx is done.
func (l *Locker) LockAll(ctx context.Context, names []string, options ...LockOption) (*Leases, error) {
	return l.core.LockAll(ctx, "lockall", names, options)
}

// DoAll runs fn under all the locks, and releases them when fn returns or panics.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options ...LockOption) error {
	return l.core.DoAll(ctx, names, fn, options)
}

// Overhear yields errors.ErrUnsupported.
func (l *Locker) Overhear(context.Context, ...string) iter.Seq2[Overheard, error] {
	return func(yield func(Overheard, error) bool) {
		yield(Overheard{}, &Error{Op: "overhear", Err: unsupported("Overhear", "a node's messages tell of its vote, and not of the lock")})
	}
}

// Close ends the Locker, as that of package fairlock does.
func (l *Locker) Close() error {
	l.refuse(l.draining, l.closing)
	l.mu.Lock()
	for _, at := range l.lines {
		at.alarm.Stop()
	}
	for _, c := range l.calls { // here, or Close could return before they leave
		if c.Phase == rules.Waiting {
			l.settle(c, nil, engine.ErrClosed)
		}
		l.abandon(c)
	}
	l.mu.Unlock()
	l.crew.end()
	l.core.Close()
	for _, n := range l.nodes {
		n.hub.Close()
	}
	l.core.Wait() // a message that came in between may have had a grant given back
	return nil
}

// Shutdown lets holders finish, then closes the Locker.
func (l *Locker) Shutdown(ctx context.Context) error {
	return l.core.Shutdown(ctx, func() { l.refuse(l.draining) }, l.Close)
}

func (l *Locker) refuse(all ...chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range all {
		if !closed(c) {
			close(c)
		}
	}
}

// message handles a message of a node to this client.
func (l *Locker) message(i int, payload string) {
	received := time.Now()
	rest, wanted := strings.CutPrefix(payload, "wanted ")
	if wanted {
		payload = "forced " + rest // which says the same of a ticket
	}
	m, keys, err := l.core.Message(payload)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[m.Ticket.Counter]
	switch {
	case c == nil && (wanted || m.News == lua.Grants): // its request was executed late
		l.core.Go(func() {
			l.core.Persist(m.Ticket.Lease, func(ctx context.Context) error {
				_, err := l.leaveFor(ctx, i, keys, m.Ticket, 0, itself)
				return err
			})
		})
	case c == nil || c.ticket != m.Ticket || c.Keys != keys:
	case wanted && c.Phase == rules.Waiting:
		c.Want(i, m.Token)
		l.judge(c)
	case wanted:
	case m.News == lua.Grants && c.Phase == rules.Waiting:
		c.Heard(i, &m, received, l.nodes[i].sessionNow())
		l.judge(c)
	case m.News == lua.Grants && c.Phase == rules.Granted:
		c.Heard(i, &m, received, l.nodes[i].sessionNow())
		l.confirm(c, i)
	case m.News == lua.Evicts && c.Phase == rules.Waiting: // one node's word is enough: it was meant for all
		l.fail(c, engine.ErrEvicted)
	case m.News == lua.Forces && c.Phase == rules.Waiting:
		c.Evicted(i, engine.ErrEvicted)
		l.judge(c)
	case m.News == lua.Forces && c.Phase == rules.Granted:
		c.LoseVote(i)
		l.core.Go(func() { l.lostVote(c, rules.Forced) })
	}
}

// lostVote has a decided call that lost a vote trust no longer what no majority of votes is for.
func (l *Locker) lostVote(c *call, why rules.Why) {
	l.mu.Lock()
	until, ok := c.Standing(time.Now())
	l.counts++
	count := l.counts
	l.mu.Unlock()
	if ok {
		l.core.Shorten(c.hold, until, count)
	} else { // also where a node that is away could yet have a vote: none is trusted
		l.core.Lose(c.hold, why)
	}
}

// Check reports what a call asks for that a quorum cannot do.
func (s strategy) Check(r engine.Request) error {
	switch {
	case s.err != nil:
		return s.err
	case r.Lease > s.most:
		return engine.Invalid("a lease of %v is longer than the longest of this quorum, %v: see WithLongestLease", r.Lease, s.most)
	case r.Owner != "":
		return unsupported("WithOwner", "a second process could have another token")
	case r.Replicas.Asked():
		return unsupported("WithReplicas and WithFsync", "a majority of nodes does what they are for")
	}
	return nil
}

func unsupported(what, why string) error {
	return engine.Unsupported("%s: not in a quorum: %s", what, why)
}

// Keys are those under the prefix, the same at each node.
func (s strategy) Keys(name string) (lua.Keys, error) { return lua.NewKeys(s.prefix, name) }

// Meet finds out whether a majority of nodes belongs to the quorum, and tells those that know none.
func (s strategy) Meet(ctx context.Context, _ lua.Keys) error {
	s.joined.Store(true)
	return s.greet(ctx, func(ctx context.Context, n *node) (string, error) { return s.meet(ctx, n, false) })
}

// greet asks each node for its run id, until a majority has told different ones. It waits for the
// others no longer than any call does. One node of another quorum is an error. Others that refuse
// are as good as away, unless they leave no majority.
func (l *Locker) greet(ctx context.Context, ask func(context.Context, *node) (run string, err error)) error {
	if l.err != nil {
		return l.err
	}
	type met struct {
		i   int
		run string
		err error
	}
	all := make(chan met, len(l.nodes))
	for i, n := range l.nodes {
		l.core.Go(func() {
			m := met{i: i, err: lua.ErrCutShort}
			defer func() { all <- m }()
			m.run, m.err = ask(context.WithoutCancel(ctx), n)
		})
	}
	runs, answered, failed := make(map[string]int), 0, l.reasons()
	refused, refusals := make([]error, len(l.nodes)), 0
	patience := time.NewTimer(hush)
	defer patience.Stop()
	most := time.NewTimer(lua.MostKept)
	defer most.Stop()
	late, over := false, false
	for open := len(l.nodes); open > 0 && !over && (!late || answered < l.need()); {
		var m met
		select {
		case <-patience.C:
			late = true
			continue
		case <-most.C:
			over = true
			continue
		case m = <-all:
			open--
		}
		switch other, twice := runs[m.run]; {
		case m.err != nil && !rules.Retryable(m.err):
			refused[m.i], failed[m.i] = m.err, m.err
			if _, other := m.err.(definite); other { //nolint:errorlint // it may hold a user's error
				return fmt.Errorf("node %d: %w", m.i+1, m.err)
			}
			if refusals++; refusals > len(l.nodes)-l.need() {
				return byNode(refused)
			}
		case m.err != nil:
			failed[m.i] = m.err
		case twice && m.run != "":
			return engine.Invalid("nodes %d and %d are one server", min(other, m.i)+1, max(other, m.i)+1)
		default:
			runs[m.run], failed[m.i] = m.i, nil
			answered++
		}
	}
	if answered < l.need() {
		return errors.Join(fmt.Errorf("%d of %d nodes answered, and a majority is %d: %w", answered, len(l.nodes), l.need(), ballot.ErrUnreachable), byNode(failed))
	}
	l.warn(refused)
	return nil
}

// errOther is wrapped by errors of nodes that belong to another quorum.
var errOther = errors.New("the node belongs to another quorum")

// meet finds out whether a node belongs to the quorum, and which server it is.
func (l *Locker) meet(ctx context.Context, n *node, first bool) (run string, err error) {
	reply, err := n.run(ctx, meetScript, []string{l.nodeKey}, l.set, l.most.Milliseconds(), first)
	if err != nil {
		return "", err
	}
	if len(reply) != 4 {
		return "", wrongReply("meet", reply)
	}
	run, _ = reply[0].(string)
	wait, _ := reply[1].(int64)
	set, _ := reply[2].(string)
	most, _ := reply[3].(int64)
	if err := l.belongs(set, most); err != nil {
		return "", err
	}
	n.met(run, ms(wait))
	return run, nil
}

// belongs is an error unless this is what a node of the quorum keeps: the set and the longest
// lease.
func (l *Locker) belongs(set string, most int64) error {
	if set == l.set && ms(most) == l.most {
		return nil
	}
	return definite{fmt.Errorf("%w: of %s with leases of up to %v, and not of %s with %v", errOther, set, ms(most), l.set, l.most)}
}

// definite is an error that asking again does not mend.
type definite struct{ error }

func (d definite) Unwrap() error { return d.error }
func (definite) RedisError()     {}

// Init says that nobody holds anything in this quorum: a new one need not wait for the longest lease
// that it might have forgotten. Use it once, before the first lock.
func (l *Locker) Init(ctx context.Context) error {
	err := l.usable(ctx)
	if err == nil {
		failed := make([]error, len(l.nodes))
		err = l.side(ctx, func(i int) {
			err := lua.ErrCutShort // unless meet returns
			defer func() {
				if err != nil {
					failed[i] = fmt.Errorf("node %d: %w", i+1, err)
				}
			}()
			_, err = l.meet(context.WithoutCancel(ctx), l.nodes[i], true)
		})
		if err == nil {
			err = errors.Join(failed...)
		}
	}
	if err != nil {
		return &Error{Op: "init", Err: err}
	}
	return nil
}

// nameOf is what the log calls a node.
func nameOf(i int, rdb redis.UniversalClient) string {
	if client, ok := rdb.(*redis.Client); ok && client != nil {
		return client.Options().Addr
	}
	return strconv.Itoa(i + 1)
}

// mark is the key that refuses late requests of a ticket. No lock has a key like it.
func (l *Locker) mark(keys lua.Keys, t lua.Ticket) string {
	return l.prefix + ":gone:" + keys.Record()[len(l.prefix+":lock:"):] + ":" + t.ID()
}
