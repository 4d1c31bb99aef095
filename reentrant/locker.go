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

// Locker gives out plain locks: reentrant, fenced, renewed, and in no order. A free lock goes to
// the first call that asks. One Locker per process and Redis is enough. Its methods are safe for
// concurrent use. When a call first has to wait, the Locker opens one connection of its own on
// which it is told of releases; on a cluster it opens one to each master.
type Locker struct {
	core     *engine.Core
	draining chan struct{} // closed by Shutdown and Close: ends calls not made under a hold
	closing  chan struct{} // closed by Close

	mu      sync.Mutex          // guards all below, and what waiters says it guards
	waiters map[string]*waiters // by record key
	memory  rules.Memory
	known   map[uint64]*try // by counter: the tickets that a call knows
	own     bool            // the Locker listens to the client's own channel
}

var _ Interface = (*Locker)(nil)

// New returns a Locker on the given client. The client stays the caller's to close, after the
// Locker. New does no I/O: if something is wrong with an option, the client or the server, every
// call returns that error. The default prefix is "fairlock", as for fair locks; but plain
// and fair locks are never the same.
func New(rdb redis.UniversalClient, options ...Option) *Locker {
	l := &Locker{
		draining: make(chan struct{}), closing: make(chan struct{}),
		waiters: make(map[string]*waiters), known: make(map[uint64]*try),
	}
	l.core = engine.New(rdb, "fairlock", lua.NewPlainServer, strategy{l}, options)
	return l
}

// Lock waits until it has the lock or ctx is done. It takes one round trip if the lock is free. The
// waiting calls of one process are served in the order in which they came, unless the server does
// not answer one for half a second. Between processes there is no order.
//
// Calls that wait in the holder's process take turns without a request: a turn that ends passes to
// the first of them. After 10 ms, or 100 turns, the lock is released to all. So is it when the
// first call that waits has WithOwner, LeaseFor, WithReplicas or WithFsync. Each turn has a token
// of its own, which may be up to 99 less than that of the record. An Unlock that passes its turn on
// does not ask the server: in the repository, docs/safety.md says what that means, under During a
// run.
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
//	ErrQueueFull  MaxWaiters were waiting in this process
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

// TryLock takes the lock if it is free, and never waits. It takes one round trip, or none if
// another call of this process has the lock or waits for it. If it goes unanswered, TryLock asks
// again for up to a second. If the lock cannot be had, the error is a *HeldError that says who has
// it, and for how long.
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

// LockAll waits until it has all the locks, or ctx is done, as in package fairlock: it has all of
// them, or none, and everybody gets several locks in one order, that of their keys. If nobody else
// wants the locks, it takes one round trip.
func (l *Locker) LockAll(ctx context.Context, names []string, options ...LockOption) (*Leases, error) {
	return l.core.LockAll(ctx, "lockall", names, options)
}

// DoAll runs fn under all the locks, and releases them when fn returns or panics. It is to LockAll
// what Do is to Lock: fn's context ends with ctx, and with cause ErrLost when the first of the
// locks can no longer be trusted.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(context.Context, *Leases) error, options ...LockOption) error {
	return l.core.DoAll(ctx, names, fn, options)
}

// Inspect shows a lock as the server sees it: its holder, not the waiting calls. It takes one round
// trip and changes no lock. But a Locker's first call, whichever it is, takes four more requests
// and may write PREFIX:protocol.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	return l.core.Inspect(ctx, name)
}

// List goes through all locks under the Locker's prefix that are held, in no order, by SCAN. A lock
// that is held all the time is shown once; any other is shown once or not at all. On a cluster a
// lock may be missing whose slot moves meanwhile, or whose master is replaced. List takes about two
// round trips for every hundred keys of the database. An error ends it.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] { return l.core.List(ctx) }

// Overhear goes through what the server tells the clients of locks, as it happens: every release
// and every forced hold. It covers the locks named, or all locks under the Locker's prefix if none
// is named. Overhear is for watching. It takes one connection, which is made again if it fails. An
// error ends it, as do ctx and Close. On a cluster the error is errors.ErrUnsupported. See
// [Overheard].
func (l *Locker) Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error] {
	return l.core.Overhear(ctx, names...)
}

// ForceUnlock ends the present ownership of a lock, whoever has it. The Leases of the old holder
// are lost at once, or with their next renewal if the holder's process does not listen. Until then
// two processes may believe that they have the lock; the fencing token tells them apart. Two round
// trips, and two more each time that the lock passes on meanwhile, twenty in all at most.
//
//	nil          the ownership was ended
//	ErrNotHeld   nobody had the lock; or it passed on each time, which the error says
//	other        the context's, the server's or the connection's. Unless the server refused, the
//	             ownership may have been ended all the same
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	_, err := l.core.ForceUnlock(ctx, name, nil)
	return err
}

// ForceToken is ForceUnlock of the ownership with that token, as [Locker.Inspect] shows it, and of
// no later one: so a lock that has passed on meanwhile stays with its new holder. One round trip.
// The error is ErrNotHeld if nobody has the lock with that token. Token 0 is that of a lock whose
// data are damaged.
func (l *Locker) ForceToken(ctx context.Context, name string, token int64) error {
	_, err := l.core.ForceToken(ctx, name, token, nil)
	return err
}

// Close ends the Locker, as that of package fairlock does. New and waiting calls get ErrClosed.
// Renewals stop, and the contexts of held Leases end with ErrClosed. What is held stays held:
// Unlock still works, and a lock that is never unlocked expires.
func (l *Locker) Close() error {
	engine.Refuse(&l.mu, l.draining, l.closing)
	l.mu.Lock()
	for _, w := range l.waiters {
		w.alarm.Stop()
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

// strategy is the Locker as its Core sees it.
type strategy struct{ *Locker }

// LeaveLine: there is no line.
func (s strategy) LeaveLine(*engine.Hold, []lua.LeaveTicket) error { return nil }

// Release leaves for a hold: one attempt.
func (s strategy) Release(ctx context.Context, server *lua.Server, h *engine.Hold) (lua.Was, error) {
	left, err := server.Leave(ctx, h.Keys, []lua.LeaveTicket{h.Leave(h.Ticket, h.Token, h.Requests.Open())})
	if err != nil {
		return "", err
	}
	return left.Were[0], nil
}

// Forget drops what the Locker knows of a hold that has ended.
func (s strategy) Forget(h *engine.Hold) { s.forget(h.Ticket) }

// Knows reports whether a call or a hold has that ticket.
func (s strategy) Knows(counter uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knows(counter)
}

// knows is Knows, with l.mu held.
func (l *Locker) knows(counter uint64) bool { return l.known[counter] != nil }

// LeaveStray gives back what a stray ticket has.
func (s strategy) LeaveStray(keys lua.Keys, t lua.Ticket) { s.leave(keys, t, rules.Unknown(t)) }
