package fairlock

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Locker gives out fair locks. One per process and Redis is enough; its methods are safe for concurrent use. It opens one
// connection of its own, on a cluster one to each master, for being told of grants, when a call first has to wait.
type Locker struct {
	core *engine.Core

	mu       sync.Mutex // guards all below, and what attempt and line say it guards
	attempts map[uint64]*attempt
	lines    map[string]*line     // by record key: those with somebody waiting
	arrivals map[string]*arrivals // by record key: those whose first requests are under way
	memory   rules.Memory
	draining bool
	closed   bool

	subscriptions map[string]*subscription // by channel: none until somebody had to wait
	sessions      uint64                   // how often any of them came up
}

// New returns a Locker on the given client, which stays the caller's to close, after the Locker. It does no I/O: what is wrong with
// an option, the client or the server is the error of every call.
func New(rdb redis.UniversalClient, options ...Option) *Locker {
	l := &Locker{
		attempts: make(map[uint64]*attempt),
		lines:    make(map[string]*line),
		arrivals: make(map[string]*arrivals),

		subscriptions: make(map[string]*subscription),
	}
	l.core = engine.New(rdb, "fairlock", lua.NewServer, strategy{l}, options)
	return l
}

// Lock waits in line until it has the lock or ctx is done. One round trip if the lock is free and
// nobody waits. Order is that of arrival at the server, also among the calls of one process: one
// for which a connection has yet to be dialled may come after a later one.
//
// The lock is kept for as long as the Lease is not unlocked, by renewals (or for LeaseFor). ctx does not own it
// afterwards: see [Lease.Context].
//
// When it returns an error, the call holds nothing and no longer waits; what it may have left with a server that did
// not answer is taken back in the background.
//
//	*WaitError    ctx ended, or WaitAtMost passed while the server said nothing; it wraps the context's error
//	ErrHeld       WaitAtMost passed (*HeldError)
//	ErrQueueFull  MaxWaiters were waiting
//	ErrInvalid    the name or an option makes no sense
//	ErrClosed     the Locker was closed, or is shutting down
//	other         the server's or the connection's. Only the first request fails a call so: once it waits, it waits on
//	              through failures and restarts of the server
func (l *Locker) Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "lock", name, false, options)
}

// TryLock takes the lock if it is free and nobody waits for it, and never waits itself: one round trip. If somebody else
// has it or comes first, the error is a *HeldError that says who, for how long, and how many wait.
func (l *Locker) TryLock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "trylock", name, true, options)
}

// Do runs fn under the lock and releases it when fn returns or panics. fn's context dies with ctx, and with cause
// ErrLost when the lock can no longer be trusted. Within fn, in the same goroutine or with its context, the lock is
// re-entered.
//
// The error is fn's joined with that of the release: it is never nil if the lock was lost
// meanwhile. If it was lost, or the Locker closed, before fn could begin, fn is not called.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, options ...LockOption) error {
	return l.core.Do(ctx, name, fn, options)
}

// Close ends the Locker: new calls get ErrClosed, waiting ones return it and leave the line, renewals stop and the
// contexts of held leases end with ErrClosed. What is held stays held: Unlock still works and hands over, and what is never
// unlocked expires. Close returns when all goroutines and the connection of the Locker are gone; a server that does not
// answer can hold it up for as long as the client's timeouts allow.
//
// It may be called in any callback. What the Observer and the Logger have yet to be told, it waits for no
// longer than a second.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.abandon(func(*attempt) bool { return true })
	for _, s := range l.subscriptions {
		if s.idle != nil {
			s.idle.Stop()
		}
	}
	l.mu.Unlock()
	l.core.Close()
	return nil
}

// Shutdown lets holders finish, then closes the Locker. Meanwhile only re-entries and calls made under a live hold go
// through; others get ErrClosed, as do those that wait. If ctx ends first, the Locker is closed all the same and the error
// says that something was still held.
func (l *Locker) Shutdown(ctx context.Context) error {
	return l.core.Shutdown(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.draining = true
		l.abandon(func(a *attempt) bool { return !a.Within })
	}, l.Close)
}
