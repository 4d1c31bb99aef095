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

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// Core is what Lockers of both kinds are made of: an id, the scripts, a subscription connection and
// the Holds. Its methods are safe for concurrent use.
type Core struct {
	Tasks // every goroutine of the Locker

	Settings Settings
	ID       string // the client; the first part of its tickets
	Server   *lua.Server
	Hub      Hub

	strategy Strategy
	counter  atomic.Uint64 // of its tickets
	contact  contact
	stop     chan struct{} // closed by Close; ends the watchdog

	looked   sync.Map     // the locks of which strays were looked for within the last second
	nonsense atomic.Int64 // messages that make no sense, since that was reported
	reported atomic.Int64 // when it last was (Unix ns)

	mu       sync.Mutex        // guards all below, and what Hold and share say it guards
	holds    map[string]*Hold  // by record key: those that may be re-entered
	bound    map[goroutine]int // Leases that belong to a goroutine
	count    int               // holds that are held or releasing
	schedule schedule
	timer    *time.Timer // nil until the first hold
	alarm    time.Time   // when the timer fires; zero: it is not set
	ticked   time.Time   // when the watchdog last looked
	closed   bool
	ended    time.Time     // when it was
	drained  chan struct{} // closed when count is zero; nil unless somebody drains
}

// Hub is how a Locker hears of it: see [pubsub.Hub] and [pubsub.Cluster].
type Hub interface {
	Listen(channel string, l *pubsub.Listener) (forget func())
	Remake(channel string)
	Overhear(ctx context.Context, patterns ...string) iter.Seq2[pubsub.Said, error]
	Close()
}

// Strategy is how calls for one kind of lock come to it, and how they go.
type Strategy interface {
	// Acquire gets a hold, or returns an error and leaves nothing behind.
	Acquire(context.Context, Call) (*Hold, error)
	// Release leaves the hold's ticket: one attempt.
	Release(context.Context, *Hold) (lua.Status, error)
	// Forget drops what the Locker keeps of a hold that ended without a release.
	Forget(*Hold)
}

// Scripts makes the Server of one kind of lock.
type Scripts func(rdb redis.UniversalClient, channel, client string) *lua.Server

// New returns a Core for a Locker with that default prefix and kind of lock. It does no I/O: what
// is wrong with an option or the client is in Settings.Err. The strategy is not used before
// the first call.
func New(rdb redis.UniversalClient, prefix string, scripts Scripts, strategy Strategy, options []Option) *Core {
	settings := newSettings(prefix, options)
	if err := checkClient(rdb); err != nil {
		settings.Err = errors.Join(err, settings.Err)
	}
	if err := lua.CheckPrefix(settings.Prefix); err != nil {
		settings.Err = errors.Join(settings.Err, Invalid("WithPrefix: %v", err))
	}
	id := uuid.NewString()
	server := scripts(rdb, lua.Channels(settings.Prefix), id)
	settings.Prefix = server.Prefix() // with what the kind of lock adds
	if settings.Simulated() {
		server.Apart() // who happens to run at an instant would decide, and no run be like another
	}
	c := &Core{
		Settings: settings, ID: id, Server: server,
		Hub:      newHub(rdb, settings.Logger),
		strategy: strategy,
		contact:  contact{turn: make(chan struct{}, 1)},
		stop:     make(chan struct{}),
		holds:    make(map[string]*Hold),
		bound:    make(map[goroutine]int),
	}
	server.Spawn(c.Go)
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
	if _, cluster := rdb.(lua.Cluster); shards != nil && !cluster { // a ring, or what is wrapped around one
		return fmt.Errorf("%T: only a single Redis or a Redis Cluster is supported: %w", rdb, errors.ErrUnsupported)
	}
	return nil
}

// Await runs f in a goroutine and returns when f has, or with EndOf(ctx) as soon as that is done. go-redis itself
// returns seconds after its context.
func (c *Core) Await(ctx context.Context, f func()) error {
	done := make(chan struct{})
	c.Go(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	}
}

// Close ends the Locker, once nobody waits any more: it stops renewals and ends the contexts of all
// Leases with ErrClosed. What is held stays held until it is unlocked or expires. Then it waits for
// what is still to be told to the server, ends the subscription, and waits a second for what is
// still to be told to the user.
func (c *Core) Close() {
	c.endLeases()
	c.Wait() // leaves go out before the subscription ends, so nobody behind is skipped or stalled
	c.Hub.Close()
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
	for _, h := range c.schedule {
		after.end(h, ErrClosed)
	}
	c.mu.Unlock()
	after.carryOut(c)
}

// isClosed reports whether the Locker was closed.
func (c *Core) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Shutdown lets holders finish, once refuse has seen to it that no others come, and ends the
// Locker.
func (c *Core) Shutdown(ctx context.Context, refuse func(), end func() error) error {
	if err := checkContext(ctx); err != nil {
		return &Error{Op: "shutdown", Err: err}
	}
	refuse()
	err := c.drain(ctx)
	if err != nil {
		err = fmt.Errorf("fairlock: shutdown with locks still held: %w", err)
	}
	return errors.Join(err, end())
}

// drain returns when nothing is held, or with EndOf(ctx).
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
	case <-ctx.Done():
		return EndOf(ctx)
	}
}
