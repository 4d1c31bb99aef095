package quorum

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// Locker gives out fair locks that a majority of nodes keeps. One Locker per process and quorum is
// enough. Its methods are safe for concurrent use.
type Locker struct {
	settings
	nodeKey   string                       // the key of a node's own record
	channels  string                       // what the clients' channels begin with, before the node's number
	args      struct{ node, id, most any } // as scripts get them
	core      *engine.Core
	crew      *crew
	nodes     []*node
	draining  chan struct{} // closed by Shutdown and Close: ends calls not made under a hold
	closing   chan struct{} // closed by Close
	looked    atomic.Bool   // a look has found a majority
	joined    atomic.Bool   // a lock was asked for, of the right nodes: they are told of the quorum, too
	forsaking sync.Once     // see Close

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
	l.args.node, l.args.id, l.args.most = l.nodeKey, l.core.ID, decimal(l.most.Milliseconds())
	l.crew = newCrew(l.core, 4*len(nodes))
	for i, rdb := range nodes {
		logger := l.core.Settings.Logger.With("node", nameOf(i, rdb))
		n := &node{
			i: i, rdb: rdb, server: lua.NewServer(rdb, l.channels, l.core.ID), hub: pubsub.New(rdb, logger),
			logger: logger, spawn: l.core.Go, back: l.returned, ended: l.closing,
		}
		n.number = l.numberOf(i, nodes)
		n.seat, n.channel = fmt.Sprintf("node %d of %s", n.number, l.set), fmt.Sprint(l.channels, n.number, ":", l.core.ID)
		n.arg = n.seat
		n.server.Spawn(l.core.Go, l.closing)
		n.server.Mortal()
		if l.core.Settings.Simulated() { // or the order of goroutines would decide what goes out together
			n.server.Apart()
		}
		n.meet = func(ctx context.Context) error { // the prober has to go on though a hook ends a goroutine
			return l.core.InOwnGoroutine(func() error { return l.probe(ctx, n) })
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
//	ErrUnreachable  no majority of the nodes answers, and no call of this Locker has found one yet
//	ErrLost         the lock was had and lost before the call could return: only of a call that
//	                does not wait, that is nested, or whose ctx has ended
//	ErrInvalid      the name is not 1 to 512 bytes long, or begins with }; or an option makes
//	                no sense
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
// found broken, and nodes be there. Until a call has found a majority, TryLock may have to connect,
// and takes up to 5 s for that.
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

// Close ends the Locker, as that of package fairlock does. If a node says nothing meanwhile, Close
// waits for a second or two for connections to it, and for answers to what was sent to it no longer
// than its client does, and for 5 s if that has no timeouts.
func (l *Locker) Close() error {
	engine.Refuse(&l.mu, l.draining, l.closing)
	over := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { l.forsaking.Do(func() { l.forsake(over) }) }) // one Close's, for all
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
	var hubs sync.WaitGroup
	for _, n := range l.nodes { // each may wait for an answer of its node
		hubs.Go(n.hub.Close)
	}
	hubs.Wait()
	l.core.Wait() // a message that came in between may have had a grant given back
	close(over)
	beside.Wait()
	return nil
}

// lastWords is how long a Close waits at least for a connection to a node that says nothing.
const lastWords = time.Second

// forsake has requests end that wait for connections to nodes that have said nothing for lastWords,
// until over is closed: go-redis dials a machine that is gone five times, for five seconds each.
// What an Unlock sends after that Close waits for a connection as ever. The subscriptions to nodes
// that are away end at once: they may be about to be made, and tell nothing.
func (l *Locker) forsake(over <-chan struct{}) {
	began := time.Now()
	tick := time.NewTicker(lastWords / 2)
	defer tick.Stop()
	var hubs sync.WaitGroup
	defer hubs.Wait()
	deaf := make(map[*node]bool)
	for {
		for _, n := range l.nodes {
			if n.away() && !deaf[n] {
				deaf[n] = true
				hubs.Go(n.hub.Close)
			}
			if time.Since(began) >= lastWords && n.quiet() >= lastWords { // else it answers
				n.server.GiveUp()
			}
		}
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// Shutdown lets holders finish, then closes the Locker.
func (l *Locker) Shutdown(ctx context.Context) error {
	return l.core.Shutdown(ctx, func() { engine.Refuse(&l.mu, l.draining) }, l.Close)
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
