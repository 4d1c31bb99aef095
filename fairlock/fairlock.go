// Package fairlock is the second floor: whose turn is it?
//
// A [Locker] gives out locks in the order in which they were asked for, over all processes that use the same Redis. Locks
// are reentrant, carry fencing tokens, and say when they are lost.
//
//	locker := fairlock.New(rdb)
//	defer locker.Close()
//
//	err := locker.Do(ctx, "order:42", func(ctx context.Context, l *fairlock.Lease) error {
//		return pay(ctx, l.Token()) // ctx dies, with cause ErrLost, the moment the lock can no longer be trusted
//	})
//
// # The line
//
// Each call is a ticket. Its place is the server's clock at its first arrival, and ticket and place are kept by the caller;
// the line on the server is a copy that every heartbeat renews. A ticket that the server lost or passed over is put back
// where it belongs, and dropping one is always allowed. So a client that died costs nothing, and one whose connection
// blinked keeps its turn.
//
//   - An attempt (attempt.go) is a ticket's life in its process: waiting, then held, then finished, and never back.
//   - Those of a process who come to a lock at the same moment are a crowd (crowd.go): they ask in one request.
//   - A line (line.go) is this process's waiters of one lock. They enter together: every 5 s, when the holder's lease ends,
//     and at once after anything that may have been missed.
//   - A release hands over: the server takes the next live ticket out of the line, writes it down as the holder for a claim
//     of 3 s and publishes that. The message is the grant (grant.go): half a round trip. The first renewal makes the claim a lease.
//   - Whoever gives up, or was given what it no longer wants, leaves (leave.go), for certain.
package fairlock

import (
	"log/slog"
	"time"

	"github.com/fairlock/locks/reentrant"
)

// The vocabulary shared with package reentrant; see there.
type (
	// Lease is one successful call's share of a lock.
	Lease = reentrant.Lease
	// Option configures a Locker.
	Option = reentrant.Option
	// LockOption configures one call.
	LockOption = reentrant.LockOption
	// Identity is by what a nested call is recognised as the holder's own.
	Identity = reentrant.Identity
	// Error says which operation on which lock failed, and why.
	Error = reentrant.Error
	// HeldError is an ErrHeld with what the server said of the holder.
	HeldError = reentrant.HeldError
	// WaitError says where a call stood in line when its context ended.
	WaitError = reentrant.WaitError
	// State is what a lock was doing when it was inspected.
	State = reentrant.State
	// Holder is who has a lock.
	Holder = reentrant.Holder
	// Waiter is one place in line.
	Waiter = reentrant.Waiter
	// Overheard is something that the server told the clients of a lock.
	Overheard = reentrant.Overheard
	// Observer is told what happens to the locks of a Locker.
	Observer = reentrant.Observer
	// Event is one thing that happened.
	Event = reentrant.Event
	// Kind says what happened.
	Kind = reentrant.Kind
	// Interface is what Lockers of both kinds do.
	Interface = reentrant.Interface
)

// The states that an error can stand for; match them with errors.Is.
var (
	// ErrHeld: somebody else has the lock. errors.As finds a *HeldError.
	ErrHeld = reentrant.ErrHeld
	// ErrQueueFull: as many wait as MaxWaiters allows.
	ErrQueueFull = reentrant.ErrQueueFull
	// ErrLost: the lock was held and is not to be trusted any more.
	ErrLost = reentrant.ErrLost
	// ErrNotHeld: this Lease holds nothing.
	ErrNotHeld = reentrant.ErrNotHeld
	// ErrEvicted: somebody took the waiting call out of the line.
	ErrEvicted = reentrant.ErrEvicted
	// ErrNotWaiting: Evict found no such waiter.
	ErrNotWaiting = reentrant.ErrNotWaiting
	// ErrNotReplicated: too few replicas had the lock in time; it was given back.
	ErrNotReplicated = reentrant.ErrNotReplicated
	// ErrClosed: the Locker was closed.
	ErrClosed = reentrant.ErrClosed
	// ErrInvalid: a name or an option that makes no sense. Nothing was sent.
	ErrInvalid = reentrant.ErrInvalid
)

// By what a nested call is recognised, beside an owner that it names.
const (
	// ByContext: the context carries the hold, or the same goroutine is inside Do.
	ByContext = reentrant.ByContext
	// ByGoroutine: also, a Lease of Lock or TryLock belongs to the goroutine that asked for it.
	ByGoroutine = reentrant.ByGoroutine
)

// What an Observer is told. See [reentrant.Kind].
const (
	Queued      = reentrant.Queued
	Acquired    = reentrant.Acquired
	GaveUp      = reentrant.GaveUp
	Released    = reentrant.Released
	Lost        = reentrant.Lost
	Renewed     = reentrant.Renewed
	PassedOver  = reentrant.PassedOver
	Reconnected = reentrant.Reconnected
)

// WithPrefix sets what all keys and channels begin with; default "fairlock". See [reentrant.WithPrefix].
func WithPrefix(prefix string) Option { return reentrant.WithPrefix(prefix) }

// WithLease sets how long a lock outlives a holder that no longer renews it; default 30 s. See [reentrant.WithLease].
func WithLease(d time.Duration) Option { return reentrant.WithLease(d) }

// WithLogger sets where the Locker reports what no caller is there to be told. See [reentrant.WithLogger].
func WithLogger(logger *slog.Logger) Option { return reentrant.WithLogger(logger) }

// WithIdentity sets by what a nested call is recognised as the holder's own. See [reentrant.WithIdentity].
func WithIdentity(identity Identity) Option { return reentrant.WithIdentity(identity) }

// WithObserver has the Locker tell o what happens. See [reentrant.WithObserver].
func WithObserver(o Observer) Option { return reentrant.WithObserver(o) }

// LeaseFor gives the call a fixed lease of d that is not renewed. See [reentrant.LeaseFor].
func LeaseFor(d time.Duration) LockOption { return reentrant.LeaseFor(d) }

// WaitAtMost bounds the waiting, apart from the context. See [reentrant.WaitAtMost].
func WaitAtMost(d time.Duration) LockOption { return reentrant.WaitAtMost(d) }

// MaxWaiters has the call return ErrQueueFull at once if n or more wait already. See [reentrant.MaxWaiters].
func MaxWaiters(n int) LockOption { return reentrant.MaxWaiters(n) }

// WithOwner names the owner; whoever names the same one shares the lock. See [reentrant.WithOwner].
func WithOwner(owner string) LockOption { return reentrant.WithOwner(owner) }

// OnQueued has f called with the call's position when it has to wait. See [reentrant.OnQueued].
func OnQueued(f func(position int)) LockOption { return reentrant.OnQueued(f) }

// WithReplicas has the call succeed only once n replicas have the lock. See [reentrant.WithReplicas].
func WithReplicas(n int, timeout time.Duration) LockOption {
	return reentrant.WithReplicas(n, timeout)
}

// WithFsync has the call succeed only once the server and n replicas have the lock on disk. See [reentrant.WithFsync].
func WithFsync(n int, timeout time.Duration) LockOption { return reentrant.WithFsync(n, timeout) }

// Note is a short text that inspection shows beside the call. See [reentrant.Note].
func Note(text string) LockOption { return reentrant.Note(text) }
