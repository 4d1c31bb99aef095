package redisson

import (
	"context"
	"iter"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
)

// Locker gives out locks that Java's clients see as theirs. One Locker per process and Redis is
// enough. Its methods are safe for concurrent use. When a call first has to wait, the Locker opens
// one connection of its own for all subscriptions; on a cluster it opens one to each master.
type Locker struct {
	protocol
	rdb      redis.UniversalClient
	plain    bool
	draining chan struct{} // closed by Shutdown and Close: ends calls not made under a hold
	closing  chan struct{} // closed by Close

	mu    sync.Mutex         // guards all below, and what call and line say it guards
	calls map[*call]struct{} // that may have something on the server
	lines map[string]*line   // by the lock's key
}

var _ Interface = (*Locker)(nil)

// strategy is the Locker as its Core sees it: also its protocol.
type strategy struct{ *Locker }

// New returns a Locker of fair locks: those of Redisson's getFairLock. The client stays the
// caller's to close, after the Locker. New does no I/O: if something is wrong with an option, the
// client or the server, every call returns that error.
func New(rdb redis.UniversalClient, options ...Option) *Locker { return newLocker(rdb, false, options) }

// NewPlain returns a Locker of plain locks: those of Redisson's getLock. A plain and a fair lock of
// one name share their key and exclude each other, but the plain one does not see the line. Use one
// kind for one name, as in Java.
func NewPlain(rdb redis.UniversalClient, options ...Option) *Locker {
	return newLocker(rdb, true, options)
}

func newLocker(rdb redis.UniversalClient, plain bool, options []Option) *Locker {
	l := &Locker{
		protocol: protocol{settings: newSettings(options)}, rdb: rdb, plain: plain,
		draining: make(chan struct{}), closing: make(chan struct{}),
		calls: make(map[*call]struct{}), lines: make(map[string]*line),
	}
	l.core = engine.New(rdb, "redisson", lua.NewServer, strategy{l}, l.engine)
	return l
}

// Lock waits until it has the lock or ctx is done. It takes one round trip if the lock is free. A
// call that waits in a fair line stands in line, subscribes and asks again, as Java does; from then
// on it asks when it is told to, or when the lock's lease may have ended.
//
// In a fair line, calls are served in the order in which they came, unless Redisson's own rules
// break it: a waiter that is out of reach for the waiter timeout goes to the end of the line. An
// Observer is told of that as PassedOver.
//
// The lock is kept, by renewals (or for LeaseFor), until the Lease is unlocked. From then on the
// lock does not depend on ctx: see [Lease.Context].
//
// When Lock returns an error, the call holds nothing and no longer waits. If a server that did not
// answer still has something of the call, that is taken back in the background.
//
//	*WaitError    ctx ended, or WaitAtMost passed while the server said nothing; wraps the context's
//	              error
//	ErrHeld       WaitAtMost passed (*HeldError)
//	ErrQueueFull  MaxWaiters were waiting: in the line of a fair lock, Java's included; in this
//	              process for a plain one. Java's own calls know no such bound
//	ErrLost       the lock was had and lost before the call could return: only of a call that does
//	              not wait, that is nested, or whose ctx has ended
//	ErrInvalid    the name or an option makes no sense
//	ErrClosed     the Locker was closed, or is shutting down
//	errors.ErrUnsupported  the protocol does not carry what an option asks for, or this client or
//	              server cannot do it
//	other         the server's or the connection's. A call that waits goes on through failures and
//	              restarts of the server: once it was answered, it ends so only with an answer that
//	              would come again, as NOPERM and WRONGTYPE would
func (l *Locker) Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "lock", name, false, options)
}

// TryLock takes the lock if it is free and, if it is fair, nobody is in line. It never waits. It
// takes one round trip. If that goes unanswered, TryLock asks again for up to a second. If the lock
// cannot be had, the error is a *HeldError.
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

// LockAll waits until it has all the locks, or ctx is done, as in package fairlock: everybody in Go
// gets several locks in one order, that of their keys. Java's getMultiLock takes them in the order
// in which they were given. So give them to Java sorted by name, or the two can wait in a circle.
func (l *Locker) LockAll(ctx context.Context, names []string, options ...LockOption) (*Leases, error) {
	return l.core.LockAll(ctx, "lockall", names, options)
}

// DoAll runs fn under all the locks, and releases them when fn returns or panics.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options ...LockOption) error {
	return l.core.DoAll(ctx, names, fn, options)
}

// Overhear is not in the protocol: it yields errors.ErrUnsupported.
func (l *Locker) Overhear(context.Context, ...string) iter.Seq2[Overheard, error] {
	return func(yield func(Overheard, error) bool) {
		yield(Overheard{}, &Error{Op: "overhear", Err: unsupported("Overhear", "a message says that something was released, and no more")})
	}
}

// Close ends the Locker, as that of package fairlock does. New and waiting calls get ErrClosed, and
// leave the line. Renewals stop, and the contexts of held Leases end with ErrClosed. What is held
// stays held: Unlock still works, and a lock that is never unlocked expires.
func (l *Locker) Close() error {
	engine.Refuse(&l.mu, l.draining, l.closing)
	l.mu.Lock()
	for _, line := range l.lines {
		line.alarm.Stop()
	}
	for c := range l.calls {
		l.abandon(c)
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
	return l.core.Shutdown(ctx, func() { engine.Refuse(&l.mu, l.draining) }, l.Close)
}
