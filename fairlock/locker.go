package fairlock

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Locker gives out fair locks. One per process and Redis is enough. Its methods are safe for
// concurrent use. When a call first has to wait, the Locker opens one connection of its own on
// which it is told of grants; on a cluster it opens one to each master.
type Locker struct {
	core *engine.Core

	mu       sync.Mutex // guards all below, and what attempt and line say it guards
	attempts map[uint64]*attempt
	lines    map[string]*line // by record key: of locks with a waiter
	runs     map[string]*run  // by record key: of holds with a run
	arrivals batches          // first requests
	leaving  batches          // leaves of calls that have ended
	memory   rules.Memory
	draining bool
	closed   bool

	subscriptions map[string]*subscription // by channel: none until a call had to wait
	sessions      uint64                   // how often a subscription came up
}

// strategy is the Locker as its Core sees it.
type strategy struct{ *Locker }

// New returns a Locker on the given client. The client stays the caller's to close, after the
// Locker. New does no I/O: if something is wrong with an option, the client or the server, every
// call returns that error.
func New(rdb redis.UniversalClient, options ...Option) *Locker {
	l := &Locker{
		attempts: make(map[uint64]*attempt),
		lines:    make(map[string]*line),
		runs:     make(map[string]*run),
		arrivals: make(batches),
		leaving:  make(batches),

		subscriptions: make(map[string]*subscription),
	}
	l.core = engine.New(rdb, "fairlock", lua.NewServer, strategy{l}, options)
	return l
}

// Lock waits in line until it has the lock or ctx is done. It takes one round trip if the lock is
// free and nobody waits. The order is that of arrival at the server, also among the calls of one
// process. A call for which a connection has yet to be dialled may arrive after a later call. Calls
// that stand directly behind one another and are of one process may pass the lock on without a
// request, within 20 ms of when the first of them has it. While they do, a further call of this
// process for this lock waits up to 1 ms before it asks. What is less exact meanwhile stands in
// docs/safety.md, under During a run.
//
// The lock is kept, by renewals (or for LeaseFor), until the Lease is unlocked. From then on the
// lock does not depend on ctx: see [Lease.Context].
//
// When Lock returns an error, the call holds nothing and no longer waits. What the server still has
// of the call is taken back in the background: the place in line, by a request that goes out as
// Lock returns, and whatever a server that did not answer may have. Until then the place counts for
// MaxWaiters, and a lock that is granted to it is given back at once.
//
//	*WaitError    ctx ended, or WaitAtMost passed while the server said nothing; wraps the context's
//	              error
//	ErrHeld       WaitAtMost passed (*HeldError)
//	ErrQueueFull  MaxWaiters were waiting
//	ErrEvicted    somebody took the call out of the line
//	ErrLost       the lock was had and lost before the call could return: only of a call that does
//	              not wait, that is nested, or whose ctx has ended
//	ErrInvalid    the name is not 1 to 512 bytes long, or begins with }; or an option makes
//	              no sense
//	ErrClosed     the Locker was closed, or is shutting down
//	ErrNotReplicated  too few replicas had the lock in time; it was given back
//	errors.ErrUnsupported  this kind of lock, client or server cannot do it
//	other         the server's or the connection's. A call that waits goes on through failures and
//	              restarts of the server: once it was answered, it ends so only with an answer that
//	              would come again, as NOPERM and WRONGTYPE would
func (l *Locker) Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "lock", name, false, options)
}

// TryLock takes the lock if it is free and nobody waits for it. It never waits: one round trip, and
// one more for every 500 waiters that are dead and in the way, 20 at most. If a request goes
// unanswered, TryLock asks again for up to a second. If somebody else has the lock or comes first,
// the error is a *HeldError. It says who has the lock, for how long, and how many wait.
func (l *Locker) TryLock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "trylock", name, true, options)
}

// Do runs fn under the lock and releases the lock when fn returns or panics. fn's context ends with
// ctx, and with cause ErrLost when the lock can no longer be trusted. Within fn, a call in the same
// goroutine or with fn's context re-enters the lock.
//
// The error is fn's joined with that of the release: it is never nil if the lock was lost
// meanwhile. If it was lost, or the Locker closed, before fn could begin, fn is not called.
func (l *Locker) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, options ...LockOption) error {
	return l.core.Do(ctx, name, fn, options)
}

// LockAll waits until it has all the locks, or ctx is done. It has all of them, or none.
//
// Everybody gets several locks in one fixed order, that of their keys, whatever the order of names.
// So no two LockAlls wait for each other. A name that comes twice counts once. A lock that the
// caller holds is re-entered, as by Lock; who holds one of the names and asks for others has chosen
// an order of its own, and can wait in a circle with somebody who chose another.
//
// If nobody else wants the locks, LockAll takes one round trip, however many there are: all are
// tried at once, in one write. On a cluster this holds if one node keeps them. Of those that are
// had, the ones that come after the first that is not are given back at once. Then LockAll waits in
// its line, and tries the rest again. Nobody therefore waits while holding a lock out of order.
// Somebody else's TryLock may meanwhile find a lock held that is given back a moment later.
//
// The options hold for each of the locks; WaitAtMost bounds the whole call. OnQueued is told the
// positions in one line after the other. LeaseFor begins with each lock: the first may end before
// the last is had. The error is as from Lock, with Op "lockall" and the name of the lock that could
// not be had. If a lock is lost while the call waits for another, the error is ErrLost. A call
// whose time is over waits for up to 100 ms until what it had is given back.
func (l *Locker) LockAll(ctx context.Context, names []string, options ...LockOption) (*Leases, error) {
	return l.core.LockAll(ctx, "lockall", names, options)
}

// DoAll runs fn under all the locks, and releases them when fn returns or panics. It is to LockAll
// what Do is to Lock: fn's context ends with ctx, and with cause ErrLost when the first of the
// locks can no longer be trusted.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options ...LockOption) error {
	return l.core.DoAll(ctx, names, fn, options)
}

// Close ends the Locker. New calls get ErrClosed. Waiting calls return ErrClosed and leave the
// line. Renewals stop, and the contexts of held Leases end with ErrClosed. What is held stays held:
// Unlock still works and hands over, and a lock that is never unlocked expires.
//
// Close returns when the Locker's connection is gone, and its goroutines but those that run the
// user's code: a context of Do's that ends, the Observer and the Logger. For what the last two have
// yet to be told, Close waits at most a second. A server that does not answer can delay Close for
// as long as the client's timeouts allow. If the client has none, Close waits for some seconds, and
// what was sent ends with the client. It may be called in any callback. What the client calls amid
// a request is none: a hook, a dialer, a credentials provider, or a method of their errors. There,
// Close would wait for that request.
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

// Shutdown lets holders finish, then closes the Locker. Meanwhile only re-entries and calls made
// under a live hold go through, and a LockAll that has some of its locks waits for the others.
// Other calls get ErrClosed, waiting ones included. If ctx ends first, the Locker is closed all the
// same and the error says that something was still held.
func (l *Locker) Shutdown(ctx context.Context) error {
	return l.core.Shutdown(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.draining = true
		l.abandon(func(a *attempt) bool { return !a.Within })
	}, l.Close)
}
