// Package redisson stands in one line with Java: it speaks the protocol of the locks of Redisson
// (https://redisson.pro), so that programs in Go and in Java share locks on one Redis.
//
//	locker := redisson.New(rdb) // the locks of getFairLock; NewPlain: those of getLock
//	defer locker.Close()
//
//	err := locker.Do(ctx, "order:42", func(ctx context.Context, l *redisson.Lease) error {
//		return work(ctx)
//	})
//
// Use this package while programs in Java share the locks. Once all programs are in Go, use package
// fairlock: docs/coming-from.md of the repository says what that gains. docs/redisson.md says, line
// by line, what holds in Java's line and what does not. The API is that of package fairlock, as far
// as the protocol carries it. What it does not carry is errors.ErrUnsupported at the call:
//
//   - There is no fencing token: [Lease.Token] is 0. Trust in a lock is by the clock alone.
//   - WithOwner: the protocol counts what an owner holds, so a repeated request could count twice.
//   - Note, WithReplicas and WithFsync, for which it has no room and no answer.
//   - Overhear: a message of Redisson says that something was released, and no more.
//   - List on a cluster: the locks' own keys have no common beginning.
//
// # Clocks
//
// Java's clients compare the deadlines in a line with their own clocks. This package uses the
// server's, and refreshes each place three times in a waiter timeout ([WithWaiterTimeout]). So the
// clocks of the JVMs and of the server have to agree within half of it.
//
// # Keys
//
// For a lock called x these are x, redisson_lock_queue:{x} and redisson_lock_timeout:{x}, and the
// channels redisson_lock__channel:{x} and redisson_lock__channel:{x}:<owner>. In a name with an
// opening brace no braces are put around it. This package adds fairlock_left:{x}:<owner> for a
// minute after it gave up an owner whose requests may still be on their way. An owner is a UUID, a
// colon and a number, as in Java.
package redisson

import "github.com/fairlock/locks/internal/engine"

// The vocabulary, which all Lockers share.
type (
	// Lease is one successful call's share of a lock: Unlock ends it. Its Token is always 0.
	Lease = engine.Lease
	// Leases are the Leases of one LockAll, which end together.
	Leases = engine.Leases
	// LockOption configures one call.
	LockOption = engine.LockOption
	// Identity is how a nested call is recognised as the holder's own.
	Identity = engine.Identity
	// Error says which operation on which lock failed, and why.
	Error = engine.Error
	// HeldError is an ErrHeld with what the server last said of the holder, and as Failure why the
	// last request for the lock failed, if it did: the call's own, or one for the whole line.
	HeldError = engine.HeldError
	// WaitError says how long a call waited, its position in line when it joined, and as Failure why
	// its last request failed, if it did.
	WaitError = engine.WaitError
	// State is what a lock was doing when it was inspected. It has no tokens, notes or beginnings.
	State = engine.State
	// NodeView is what one node of a quorum says of a lock: see package quorum.
	NodeView = engine.NodeView
	// Holder is who has a lock. Depth is the count that the record shows.
	Holder = engine.Holder
	// Waiter is one place in the line of a fair lock.
	Waiter = engine.Waiter
	// Overheard is what Overhear would tell.
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
	ErrHeld      = engine.ErrHeld      // somebody else has the lock
	ErrQueueFull = engine.ErrQueueFull // as many wait as MaxWaiters allows
	ErrLost      = engine.ErrLost      // the lock was held and can no longer be trusted
	ErrNotHeld   = engine.ErrNotHeld   // this Lease holds nothing
	ErrClosed    = engine.ErrClosed    // the Locker was closed
	ErrInvalid   = engine.ErrInvalid   // a name or an option that makes no sense
)

// How a nested call is recognised.
const (
	ByContext   = engine.ByContext   // a hold in the context, and the goroutine inside Do
	ByGoroutine = engine.ByGoroutine // also the goroutine that called Lock or TryLock, until Detach
)

// What an Observer is told.
const (
	Queued     = engine.Queued     // a call waits, at Position
	Acquired   = engine.Acquired   // a call has the lock, after Took
	GaveUp     = engine.GaveUp     // a call ended without the lock, after Took, because of Err
	Released   = engine.Released   // an ownership was given back, after Took
	Lost       = engine.Lost       // an ownership ended otherwise, after Took, because of Err
	Renewed    = engine.Renewed    // one request prolonged the leases of Locks locks
	PassedOver = engine.PassedOver // a waiter was no longer in line, and is now at its end
)
