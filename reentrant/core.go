package reentrant

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

// Core is what the Lockers of either kind are made of: an id, the scripts, a subscription connection and a Keeper. Its
// methods are safe for concurrent use.
type Core struct {
	Settings Settings
	ID       string // the client; the first part of its tickets
	Server   *lua.Server
	Hub      Hub
	Keeper   *Keeper

	counter atomic.Uint64 // of its tickets
	contact contact

	looked   sync.Map     // the locks of which strays were looked for within the last second
	nonsense atomic.Int64 // messages that make no sense, since that was reported
	reported atomic.Int64 // when it last was (Unix ns)
}

// Hub is how a Locker hears of it: see [pubsub.Hub] and [pubsub.Cluster].
type Hub interface {
	Listen(channel string, l *pubsub.Listener) (forget func())
	Remake(channel string)
	Overhear(ctx context.Context, patterns ...string) iter.Seq2[pubsub.Said, error]
	Close()
}

func newHub(rdb redis.UniversalClient, log *slog.Logger) Hub {
	if cluster, ok := rdb.(lua.Cluster); ok {
		return pubsub.NewCluster(cluster, log)
	}
	return pubsub.New(rdb, log)
}

// serves makes the Server of one kind of lock.
type serves func(rdb redis.UniversalClient, channel, client string) *lua.Server

// NewCore returns a Core for a Locker of the given default prefix and kind of Server. It does no I/O: what is wrong with an
// option or the client is in Settings.Err. Keep must follow.
func NewCore(rdb redis.UniversalClient, prefix string, server serves, options []Option) *Core {
	settings := NewSettings(prefix, options)
	if err := checkClient(rdb); err != nil {
		settings.Err = errors.Join(err, settings.Err)
	}
	if err := lua.CheckPrefix(settings.Prefix); err != nil {
		settings.Err = errors.Join(settings.Err, Invalid("WithPrefix: %v", err))
	}
	id := uuid.NewString()
	scripts := server(rdb, lua.Channels(settings.Prefix), id)
	settings.Prefix = scripts.Prefix() // with what the kind of lock adds
	if settings.Alarm != nil {
		scripts.Apart() // who happens to run at an instant would decide, and no run be like another
	}
	return &Core{
		Settings: settings, ID: id,
		Server:  scripts,
		Hub:     newHub(rdb, settings.Logger),
		contact: contact{turn: make(chan struct{}, 1)},
	}
}

// Keep gives the Core its Keeper, which tells r of the ends of holds.
func (c *Core) Keep(r Releaser) {
	c.Keeper = NewKeeper(c.Server, r, c.Settings)
	c.Server.Spawn(c.Keeper.Go)
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

// Begin is what every call begins with: it checks what is asked for, re-enters, and makes contact. A Lease means that the call
// is over.
func (c *Core) Begin(ctx context.Context, name string, try bool, options []LockOption) (Request, lua.Keys, *Lease, error) {
	request, keys, err := c.read(ctx, name, options)
	if err != nil {
		return request, keys, nil, err
	}
	inner := request
	if try {
		inner.Wait = 0
	}
	if lease, err := c.Keeper.Reenter(ctx, keys.Record(), inner); lease != nil || err != nil {
		return request, keys, lease, err
	}
	start := time.Now()
	err = c.Contact(ctx, keys, request.Wait)
	if request.Wait > 0 {
		request.Wait = max(1, request.Wait-time.Since(start)) // the bound is of both together
	}
	if try {
		request.Wait = 0
	}
	return request, keys, nil, err
}

// read checks what a call asks for, before anything is sent.
func (c *Core) read(ctx context.Context, name string, options []LockOption) (Request, lua.Keys, error) {
	request, err := c.Settings.Request(options)
	if err == nil {
		err = checkContext(ctx)
	}
	if err != nil {
		return request, lua.Keys{}, err
	}
	keys, err := c.keys(name)
	if bound := c.Server.Bound(); err == nil && bound > 0 && request.Replicas.Within >= bound {
		err = Invalid("%s: a timeout of %v is not shorter than the client's read timeout of %v", request.replication(), request.Replicas.Within, bound)
	}
	if err == nil && ctx.Err() != nil {
		err = EndOf(ctx)
	}
	return request, keys, err
}

func checkContext(ctx context.Context) error {
	if ctx == nil {
		return Invalid("the context is nil")
	}
	return nil
}

func (c *Core) keys(name string) (lua.Keys, error) {
	if c.Settings.Err != nil {
		return lua.Keys{}, c.Settings.Err
	}
	keys, err := lua.NewKeys(c.Settings.Prefix, name)
	if err != nil {
		return lua.Keys{}, Invalid("%v", err)
	}
	return keys, nil
}

// Insist makes a call that waits wait on if it was given the lock and lost it before it had a Lease: the claim could not be
// confirmed in time, or the process stood still. Nobody can have used it. The call joins the line again, at its end.
func (c *Core) Insist(ctx context.Context, r Request, once func(Request) (*Lease, error)) (*Lease, error) {
	until := time.Now().Add(r.Wait)
	for {
		lease, err := once(r)
		if !errors.Is(err, ErrLost) || r.Wait == 0 || ctx.Err() != nil {
			return lease, err
		}
		if r.Wait > 0 {
			r.Wait = max(time.Until(until), 1)
		}
		r.Waited = true
	}
}

// Waits tells the caller and the observer where a call stands in line.
func (c *Core) Waits(ctx context.Context, name, owner string, r Request, position int, first bool) {
	if first && c.Settings.Observer != nil {
		c.Settings.Observe(Event{Kind: Queued, Context: ctx, Name: name, Owner: owner, Position: position})
	}
	if r.OnQueued != nil {
		r.OnQueued(position)
	}
}

// GaveUp is the error of a call that ends with one; the observer is told.
func (c *Core) GaveUp(ctx context.Context, op, name string, began time.Time, err error) error {
	if c.Settings.Observer != nil {
		c.Settings.Observe(Event{Kind: GaveUp, Context: ctx, Name: name, Took: time.Since(began), Err: err})
	}
	return &Error{op, name, err}
}

// mostKept is how long a call without any bound of its own may be kept by a server that has fallen silent.
const mostKept = 5 * time.Second

// Prompt is a context under which a call may send a request from its own goroutine, if it is sure to come back soon.
func (c *Core) Prompt(ctx context.Context, r Request) (context.Context, bool) {
	if r.Replicas.Asked() { // they are waited for
		return nil, false
	}
	limit := mostKept
	if r.Wait > 0 {
		limit = min(limit, r.Wait)
	}
	return c.Server.Prompt(ctx, limit)
}

// Ticket is the client's next one.
func (c *Core) Ticket(r Request) lua.Ticket {
	return lua.Ticket{Client: c.ID, Counter: c.counter.Add(1), Lease: r.Lease, Owner: r.Owner, Note: r.Note}
}

// Do runs fn under the lease that acquire gets and releases it when fn returns or panics.
func (c *Core) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, acquire func() (*Lease, error)) (err error) {
	if fn == nil {
		return &Error{Op: "do", Name: name, Err: Invalid("the function is nil")}
	}
	lease, err := acquire()
	if err != nil {
		return err
	}
	defer func() {
		failed := lease.Unlock(ctx)
		if failed == nil || !errors.Is(failed, ErrLost) && errors.Is(failed, ErrNotHeld) { // fn may have unlocked it
			return
		}
		if err != nil {
			failed = errors.Join(err, failed)
		}
		err = failed
	}()
	return fn(lease.Scoped(ctx), lease)
}

// End stops renewals, waits for what is still to be told to the server, ends the subscription,
// and waits a second for what is still to be told to the user: Close, once nobody waits any more.
func (c *Core) End() {
	c.Keeper.Close()
	c.Keeper.Wait() // leaves go out before the subscription ends, so nobody behind is skipped or stalled
	c.Hub.Close()
	c.Settings.reporter.drain()
}

// Shutdown lets holders finish, once refuse has seen to it that no others come, and ends the
// Locker.
func (c *Core) Shutdown(ctx context.Context, refuse func(), end func() error) error {
	if err := checkContext(ctx); err != nil {
		return &Error{Op: "shutdown", Err: err}
	}
	refuse()
	err := c.Keeper.Drain(ctx)
	if err != nil {
		err = fmt.Errorf("fairlock: shutdown with locks still held: %w", err)
	}
	return errors.Join(err, end())
}
