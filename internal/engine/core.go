package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// Core is what Lockers of all kinds are made of: an id, the scripts, a subscription connection and
// the Holds. Its methods are safe for concurrent use.
type Core struct {
	Tasks // what Close waits for: not the Hub's goroutines, nor those that run the user's code

	Settings Settings
	ID       string // of the client; the first part of its tickets
	Server   *lua.Server
	Hub      Hub

	strategy Strategy
	protocol Protocol
	counter  atomic.Uint64 // of the client's tickets
	contact  contact
	stop     chan struct{} // closed by Close; ends the watchdog

	looked     sync.Map     // locks of which strays were looked for within the last second
	nonsense   atomic.Int64 // messages that make no sense, since the last report of them
	reported   atomic.Int64 // when they were last reported (Unix ns)
	complained atomic.Int64 // when Failing was last logged (Unix ns)

	mu       sync.Mutex        // guards all below, and what Hold, Turn, run and share say it guards
	turns    map[string]*Turn  // by record key: those that may be re-entered, the latest first
	bound    map[goroutine]int // number of Leases that belong to a goroutine
	count    int               // holds that are held or releasing
	schedule schedule
	watched  map[string]*Hold // by record key: the holds in the schedule, the latest first
	alarm    *Alarm           // nil until the first hold
	ticked   time.Time        // when the watchdog last looked
	closed   bool
	ended    time.Time     // when the Core was closed
	drained  chan struct{} // closed when count is zero; nil unless Shutdown waits
}

// Hub is how a Locker hears the server's messages: see [pubsub.Hub] and [pubsub.Cluster].
type Hub interface {
	Listen(channel string, l *pubsub.Listener) (forget func())
	Remake(channel string)
	Overhear(ctx context.Context, patterns ...string) iter.Seq2[pubsub.Said, error]
	Close()
}

// Strategy is how calls for one kind of lock get the lock, and how it is given back. The Core holds
// no mutex when it calls a method: each may take the Locker's.
type Strategy interface {
	// Acquire gets a turn, or returns an error and leaves nothing behind.
	Acquire(context.Context, Call) (*Turn, error)
	// PassOn gives the next turn on a hold to a waiting call, by Core.Pass. It reports whether there
	// is such a call.
	PassOn(*Hold) bool
	// LeaveLine sends one leave for tickets that had turns on the hold.
	LeaveLine(*Hold, []lua.LeaveTicket) error
	// Release sends one leave for the hold's ticket to that Server, which may be a prompt one.
	Release(context.Context, *lua.Server, *Hold) (lua.Was, error)
	// Forget drops what the Locker keeps of a hold that has ended: its release is settled, or it was
	// lost.
	Forget(*Hold)
	// Knows reports whether a call, or a hold, knows the ticket with that counter.
	Knows(counter uint64) bool
	// LeaveStray leaves, in the background, for a ticket that nobody knows.
	LeaveStray(lua.Keys, lua.Ticket)
}

// Scripts makes the Server of one kind of lock.
type Scripts func(rdb redis.UniversalClient, channel, client string) *lua.Server

// New returns a Core for a Locker with that default prefix and kind of lock. It does no I/O: what
// is wrong with an option or the client is in Settings.Err. New does not use the strategy; the
// first call does.
func New(rdb redis.UniversalClient, prefix string, scripts Scripts, strategy Strategy, options []Option) *Core {
	settings := newSettings(prefix, options)
	if err := checkClient(rdb); err != nil {
		settings.Err = errors.Join(err, settings.Err)
	}
	if err := lua.CheckPrefix(settings.Prefix); err != nil {
		settings.Err = errors.Join(settings.Err, Invalid("WithPrefix: %v", err))
	}
	server := scripts(rdb, lua.Channels(settings.Prefix), settings.id)
	settings.Prefix = server.Prefix() // with what the kind of lock adds
	if settings.Simulated() {
		server.Apart() // or the order of goroutines would decide, and runs would differ
	}
	c := &Core{
		Settings: settings, ID: settings.id, Server: server,
		Hub:      newHub(rdb, settings.Logger),
		strategy: strategy,
		contact:  contact{looking: make(chan struct{}, 1)},
		stop:     make(chan struct{}),
		turns:    make(map[string]*Turn),
		bound:    make(map[goroutine]int),
		watched:  make(map[string]*Hold),
	}
	c.counter.Store(settings.after)
	server.Spawn(c.Go, c.stop)
	c.protocol = own{c}
	if other, ok := strategy.(Protocol); ok {
		c.protocol = other
	}
	return c
}

func newHub(rdb redis.UniversalClient, log *slog.Logger) Hub {
	if cluster, ok := rdb.(lua.Cluster); ok {
		return pubsub.NewCluster(cluster, log)
	}
	return pubsub.New(rdb, log)
}

func checkClient(rdb redis.UniversalClient) error {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return Invalid("the client is nil")
	}
	shards, _ := rdb.(interface {
		ForEachShard(ctx context.Context, f func(ctx context.Context, shard *redis.Client) error) error
	})
	// Shards without a cluster are a ring, or a wrapper of one.
	if _, cluster := rdb.(lua.Cluster); shards != nil && !cluster {
		return Unsupported("%T: only a single Redis or a Redis Cluster is supported", rdb)
	}
	return nil
}

// Await runs f in a goroutine and returns when f has returned, or with EndOf(ctx) as soon as ctx is
// done. It is needed because go-redis returns seconds after its context has ended. f's context ends
// with ctx, and is not the user's, which may panic where nobody recovers.
func (c *Core) Await(ctx context.Context, f func(context.Context)) error {
	err := c.await(ctx, f)
	if errors.Is(err, errEnded) {
		return EndOf(ctx)
	}
	return err
}

var errEnded = errors.New("the context ended")

// await is Await, and returns errEnded if ctx is done. It does not ask why.
func (c *Core) await(ctx context.Context, f func(context.Context)) error {
	own, end := lua.OwnContext(ctx)
	defer end()
	done := make(chan error, 1)
	c.Go(func() {
		err := lua.ErrCutShort
		defer func() { done <- err }()
		f(own)
		err = nil
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errEnded
	}
}

// InOwnGoroutine runs f in a goroutine that a hook of the client's may end, and returns its error.
func (c *Core) InOwnGoroutine(f func() error) error {
	done := make(chan error, 1)
	c.Go(func() {
		err := lua.ErrCutShort
		defer func() { done <- err }()
		err = f()
	})
	return <-done
}

// Close ends the Locker, once no call waits any more. It stops renewals and ends the contexts of
// all Leases with ErrClosed. What is held stays held until it is unlocked or expires. Then Close
// waits for the requests that still have to go to the server, and ends the subscription. Last, it
// waits at most a second for what the user has yet to be told.
func (c *Core) Close() {
	c.endLeases()
	c.Wait() // leaves go out before the subscription ends: no waiter behind is skipped or stalled
	c.Hub.Close()
	c.Wait() // a message that came in between may have had a grant given back
	c.Settings.reporter.drain()
}

func (c *Core) endLeases() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.ended = true, time.Now()
	close(c.stop)
	var after effects
	var refused []*Turn
	for _, h := range append(schedule(nil), c.schedule...) {
		t := h.turn
		after.end(t, ErrClosed)
		if t.live() && !t.handedOut() { // its call has yet to hear of the grant, or is in a callback
			t.refused = true
			c.endTurn(t)
			c.Begun() // now: another Close waits for it, too
			refused = append(refused, t)
		}
	}
	c.mu.Unlock()
	after.carryOut(c)
	for _, t := range refused { // only now: somebody else has the lock then
		go func() {
			defer c.Done()
			c.giveBack(context.Background(), t, nil, 0, time.Now())
		}()
	}
}

// isClosed reports whether the Locker was closed.
func (c *Core) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Shutdown lets holders finish and then ends the Locker. It first calls refuse, from which on no
// other calls may get a lock.
func (c *Core) Shutdown(ctx context.Context, refuse func(), end func() error) error {
	if err := checkContext(ctx); err != nil {
		return &Error{Op: "shutdown", Err: err}
	}
	refuse()
	err := c.drain(ctx)
	if err != nil {
		err = &Error{Op: "shutdown", Err: fmt.Errorf("locks are still held: %w", err)}
	}
	return errors.Join(err, end())
}

// drain returns when nothing is held, with EndOf(ctx), or when the Locker is closed: from then on
// nobody counts out what expires.
func (c *Core) drain(ctx context.Context) error {
	c.mu.Lock()
	if c.count == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.drained == nil {
		c.drained = make(chan struct{})
	}
	drained := c.drained
	c.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-c.stop:
		return ErrClosed
	case <-ctx.Done():
		return EndOf(ctx)
	}
}
