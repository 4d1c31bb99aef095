// Package reentrant gives out plain locks on Redis: reentrant, fenced, renewed, and in no order.
//
// A [Locker] gives a free lock to the first call that asks. It has the API of the fair locks of
// package fairlock, whose page explains the whole of it; this page repeats it in short and says
// what is different. Fair and plain locks never meet: a plain x and a fair x are two locks. Inside,
// both use package engine, the rules and the scripts. Only how a call comes to its lock differs:
// tries here, a line there.
//
//	locker := reentrant.New(rdb)
//	defer locker.Close()
//
//	err := locker.Do(ctx, "report", func(ctx context.Context, l *reentrant.Lease) error {
//		return write(ctx, l.Token())
//	})
//
// In the repository, docs/choosing.md says when a plain lock is enough, and docs/design.md tells
// how it works.
package reentrant

import (
	"log/slog"
	"time"

	"github.com/fairlock/locks/internal/engine"
)

// The vocabulary, which fair locks share.
type (
	// Lease is one successful call's share of a lock: Unlock ends it.
	Lease = engine.Lease
	// Leases are the Leases of one LockAll, which end together.
	Leases = engine.Leases
	// Option configures a Locker.
	Option = engine.Option
	// LockOption configures one call.
	LockOption = engine.LockOption
	// Identity is how a nested call is recognised as the holder's own.
	Identity = engine.Identity
	// Error says which operation on which lock failed, and why.
	Error = engine.Error
	// HeldError is an ErrHeld with what the server last said of the holder, and as Failure why the
	// last request for the lock failed, if it did: the call's own, or that of another call of this
	// process that waits. Waiting counts the waiters of this process.
	HeldError = engine.HeldError
	// WaitError says how long a call waited, its Position among the waiters of this process when it
	// joined, and as Failure why its last request failed, if it did.
	WaitError = engine.WaitError
	// State is what a lock was doing when it was inspected. It does not tell the waiters.
	State = engine.State
	// NodeView is what one node of a quorum says of a lock: see package quorum.
	NodeView = engine.NodeView
	// Holder is who has a lock.
	Holder = engine.Holder
	// Waiter is one place in the line of a fair lock.
	Waiter = engine.Waiter
	// Overheard is something that the server told the clients of a lock. Its Kind is one of
	//
	//	Released     the lock (Name) was given back, or its ownership ended by force
	//	Lost         the ownership with Token was ended by force; ID, Owner and Note are of the
	//	             call that had it
	//	Reconnected  from here on everything is heard. Comes first, and again after each failure
	Overheard = engine.Overheard
	// Observer is told what happens to the locks of a Locker.
	Observer = engine.Observer
	// Event is one thing that happened.
	Event = engine.Event
	// Kind says what happened.
	Kind = engine.Kind
	// Interface is what Lockers of all kinds do.
	Interface = engine.Interface
)

// The states that an error can stand for; match them with errors.Is.
var (
	ErrHeld          = engine.ErrHeld          // somebody else has the lock
	ErrQueueFull     = engine.ErrQueueFull     // MaxWaiters calls of this process wait already
	ErrLost          = engine.ErrLost          // the lock was held and can no longer be trusted
	ErrNotHeld       = engine.ErrNotHeld       // this Lease holds nothing
	ErrNotReplicated = engine.ErrNotReplicated // too few replicas had the lock
	ErrClosed        = engine.ErrClosed        // the Locker was closed
	ErrInvalid       = engine.ErrInvalid       // a name or an option that makes no sense
)

// How a nested call is recognised, unless the call names an owner.
const (
	ByContext   = engine.ByContext   // a hold in the context, and the goroutine inside Do
	ByGoroutine = engine.ByGoroutine // also the goroutine that called Lock or TryLock, until Detach
)

// What an Observer is told.
const (
	Queued      = engine.Queued      // a call waits, at Position of this process
	Acquired    = engine.Acquired    // a call has the lock, after Took
	GaveUp      = engine.GaveUp      // a call ended without the lock, after Took, because of Err
	Released    = engine.Released    // an ownership was given back, after Took
	Lost        = engine.Lost        // an ownership ended otherwise, after Took, because of Err
	Renewed     = engine.Renewed     // one request prolonged the leases of Locks locks
	Reconnected = engine.Reconnected // the subscription was made again
)

// WithPrefix sets what all keys and channels begin with, before ":plain"; default "fairlock".
func WithPrefix(prefix string) Option { return engine.WithPrefix(prefix) }

// WithLease sets how long a lock outlives a holder that no longer renews it. Default 30 s, from
// 100 ms to 366 days.
func WithLease(d time.Duration) Option { return engine.WithLease(d) }

// WithLogger sets where the Locker reports what it cannot tell any caller. Default slog.Default().
func WithLogger(logger *slog.Logger) Option { return engine.WithLogger(logger) }

// WithIdentity sets how a nested call is recognised as the holder's own. Default ByContext.
func WithIdentity(identity Identity) Option { return engine.WithIdentity(identity) }

// WithObserver has the Locker tell o what happens. None by default.
func WithObserver(o Observer) Option { return engine.WithObserver(o) }

// LeaseFor gives the call a fixed lease: it ends d after the lock was acquired and is not renewed.
// From 100 ms to 366 days. It ends later if Extend or a nested call asks for that. A nested call
// without LeaseFor puts the lock under a watchdog until it is unlocked. A nested call that fails
// may have done so, too: LockAll re-enters what it can before it knows whether it has the rest.
func LeaseFor(d time.Duration) LockOption { return engine.LeaseFor(d) }

// WaitAtMost bounds the waiting, apart from the context. After d the call returns ErrHeld. It
// returns a *WaitError if the server said nothing, or has yet to confirm what the call asks for
// besides: WithReplicas, WithFsync, or a longer lease of a nested call. 0 tries once.
func WaitAtMost(d time.Duration) LockOption { return engine.WaitAtMost(d) }

// MaxWaiters makes the call return ErrQueueFull at once if n or more calls of this process wait
// already.
func MaxWaiters(n int) LockOption { return engine.MaxWaiters(n) }

// WithOwner names the owner, in at most 256 bytes. All calls that name the same owner share the
// lock.
func WithOwner(owner string) LockOption { return engine.WithOwner(owner) }

// OnQueued makes a call that has to wait call f, in the caller's own goroutine, with the call's
// position among those of this process; 1 is next. The call stands in line only when f has
// returned. f is called once. It is called again only if the call joins the line anew, because its
// lock was lost before the call could return, as when the process stood still; and by LockAll in
// each line.
func OnQueued(f func(position int)) LockOption { return engine.OnQueued(f) }

// WithReplicas makes the call succeed only once n replicas have confirmed that they have the lock.
// If too few confirm within the timeout, the lock is given back. A nested call takes a round trip
// for it; if it fails, the outer hold remains.
func WithReplicas(n int, timeout time.Duration) LockOption { return engine.WithReplicas(n, timeout) }

// WithFsync makes the call succeed only once the server and n of its replicas have confirmed that
// they have the lock on disk. If that takes longer than the timeout, the lock is given back. A
// nested call takes a round trip for it; if it fails, the outer hold remains.
func WithFsync(n int, timeout time.Duration) LockOption { return engine.WithFsync(n, timeout) }

// Note is a short text that inspection shows beside the call. At most 256 bytes.
func Note(text string) LockOption { return engine.Note(text) }
