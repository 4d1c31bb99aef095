package reentrant

import (
	"context"
	"iter"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Locker gives out plain locks: reentrant, fenced, renewed, and in no order. Whoever asks when a lock is free has it.
// One per process and Redis is enough; its methods are safe for concurrent use. It opens one connection of its own, on a
// cluster one to each master, for being told of releases, when a call first has to wait.
type Locker struct {
	core     *engine.Core
	draining chan struct{} // closed by Shutdown and by Close: ends calls that are not made under a hold
	closing  chan struct{} // closed by Close

	mu      sync.Mutex          // guards all below, and what waiters says it guards
	waiters map[string]*waiters // by record key
	memory  rules.Memory
	known   map[uint64]*try // by counter: tickets of which a call knows
	own     bool            // the client's own channel is listened to
}

var _ Interface = (*Locker)(nil)

// New returns a Locker on the given client, which stays the caller's to close, after the Locker.
// It does no I/O: what is wrong with an option, the client or the server is the error of every
// call. The default prefix is "fairlock", as that of fair locks, with which it shares nothing.
func New(rdb redis.UniversalClient, options ...Option) *Locker {
	l := &Locker{
		draining: make(chan struct{}), closing: make(chan struct{}),
		waiters: make(map[string]*waiters), known: make(map[uint64]*try),
	}
	l.core = engine.New(rdb, "fairlock", lua.NewPlainServer, strategy{l}, options)
	return l
}

// Lock waits until it has the lock or ctx is done. One round trip if the lock is free. Those who
// wait in one process are served in the order in which they came; between processes there is none.
//
// The lock is kept for as long as the Lease is not unlocked, by renewals (or for LeaseFor). ctx does not own it
// afterwards: see [Lease.Context].
//
// When it returns an error, the call holds nothing and no longer waits; what it may have left with a server that did
// not answer is taken back in the background.
//
//	*WaitError    ctx ended, or WaitAtMost passed while the server said nothing; it wraps the context's error
//	ErrHeld       WaitAtMost passed (*HeldError)
//	ErrQueueFull  MaxWaiters were waiting in this process
//	ErrInvalid    the name or an option makes no sense
//	ErrClosed     the Locker was closed, or is shutting down
//	other         the server's or the connection's. Only the first request fails a call so: once it waits, it waits on
//	              through failures and restarts of the server
func (l *Locker) Lock(ctx context.Context, name string, options ...LockOption) (*Lease, error) {
	return l.core.Lock(ctx, "lock", name, false, options)
}

// TryLock takes the lock if it is free, and never waits: one round trip, or none if somebody else in
// this process has it or waits for it. If it cannot be had, the error is a *HeldError that says who
// has it, and for how long.
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

// Inspect shows a lock as the server sees it: its holder, not who waits. One round trip. Nothing is written.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	return l.core.Inspect(ctx, name)
}

// List goes through all locks under the Locker's prefix that are held, in no order, by SCAN: a lock that is held all the
// time is shown once, any other once or not at all. It takes about two round trips for every hundred keys of the
// database. An error ends it.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] { return l.core.List(ctx) }

// Overhear goes through what the server tells the clients of the locks under the Locker's prefix, or of those named, as
// it happens: every release and every forced hold. It is for watching, and takes one connection, which is made again if
// it fails. An error ends it, as do ctx and Close; on a cluster it is errors.ErrUnsupported. See [Overheard].
func (l *Locker) Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error] {
	return l.core.Overhear(ctx, names...)
}

// ForceUnlock ends the present ownership of a lock, whoever has it: the Leases of its holder are lost at once, or, should
// its process not listen, with their next renewal. For as long as that takes two may believe that they have it; the token
// tells them apart. Two round trips.
//
//	nil          it was ended
//	ErrNotHeld   nobody had the lock
//	other        the context's, the server's or the connection's: unless the server refused, it may have been ended all the same
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	if _, _, err := l.core.Force(ctx, name); err != nil {
		return &engine.Error{Op: "force", Name: name, Err: err}
	}
	l.core.Settings.Logger.Warn("fairlock: a lock was forced", "lock", name)
	return nil
}

// Close ends the Locker: new calls get ErrClosed, waiting ones return it, renewals stop and the contexts of held leases
// end with ErrClosed. What is held stays held: Unlock still works, and what is never unlocked expires. Close returns when all
// goroutines and the connection of the Locker are gone; a server that does not answer can hold it up for as long as the
// client's timeouts allow.
//
// It may be called in any callback. What the Observer and the Logger have yet to be told, it waits for no
// longer than a second.
func (l *Locker) Close() error {
	l.refuseCalls(l.draining, l.closing)
	l.mu.Lock()
	for _, w := range l.waiters {
		w.timer.Stop()
	}
	l.mu.Unlock()
	l.core.Close()
	return nil
}

// Shutdown lets holders finish, then closes the Locker. Meanwhile only re-entries and calls made under a live hold go
// through; others get ErrClosed, as do those that wait. If ctx ends first, the Locker is closed all the same and the error
// says that something was still held.
func (l *Locker) Shutdown(ctx context.Context) error {
	return l.core.Shutdown(ctx, func() { l.refuseCalls(l.draining) }, l.Close)
}

// refuseCalls closes those of the channels that are still open.
func (l *Locker) refuseCalls(all ...chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range all {
		if !isClosed(c) {
			close(c)
		}
	}
}

// strategy is the Locker as its Core sees it.
type strategy struct{ *Locker }

// Release leaves for a hold: one attempt.
func (s strategy) Release(ctx context.Context, h *engine.Hold) (lua.Status, error) {
	left, err := s.core.Server.Leave(ctx, h.Keys, []lua.LeaveTicket{h.Leave(h.Ticket, h.Token, h.Requests.Open())})
	if err != nil {
		return "", err
	}
	return left.States[0], nil
}

// Forget drops what the Locker knows of a hold that has ended.
func (s strategy) Forget(h *engine.Hold) { s.forget(h.Ticket) }
