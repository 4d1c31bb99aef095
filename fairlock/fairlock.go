// Package fairlock gives out fair locks on Redis: whose turn is it?
//
// A [Locker] gives out locks in the order in which they were asked for, over all processes that use
// the same Redis. Locks are reentrant, carry fencing tokens, and say when they are lost.
//
//	locker := fairlock.New(rdb)
//	defer locker.Close()
//
//	err := locker.Do(ctx, "order:42", func(ctx context.Context, l *fairlock.Lease) error {
//		// ctx ends, with cause ErrLost, the moment the lock can no longer be trusted
//		return pay(ctx, l.Token())
//	})
//
// # How it works
//
// Each call is a ticket. Its place is the server's clock at its first arrival. The caller keeps
// both; the line on the server is a copy that every heartbeat renews. A ticket that the server lost
// or passed over is put back where it belongs. So a client that died costs nothing, and one whose
// connection blinked keeps its turn.
//
// A release hands over. One script takes the next live ticket out of the line, writes it down as
// the holder for a claim of 3 s and publishes that. The message is the grant: half a round trip.
// The first renewal, a second later, makes the claim a lease. If the next in line are calls of the
// same process, they may have their turns on that grant, without a request.
//
// In the repository, docs/safety.md says what is promised under which assumptions and why, and
// docs/design.md tells the whole protocol in order.
package fairlock

import (
	"log/slog"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
)

// The vocabulary, which plain locks share.
type (
	// Lease is one successful call's share of a lock. It is safe for concurrent use, and all its
	// methods may be called on nil and on the zero Lease, which hold nothing. It must not be
	// copied.
	//
	//	Unlock(ctx) error        ends this Lease; the lock is released with the last Lease on it. One
	//	                         request then, or none if the next in line is a call of this
	//	                         process; none before. nil: released. ErrLost: it was lost
	//	                         before. ErrNotHeld: it was unlocked before. Of ctx only the values
	//	                         and the deadline are used: a cancelled context unlocks as well as
	//	                         any. Unlock waits for 5 s at most, or until the deadline if that
	//	                         is sooner, but for a second at least. Then it returns an error
	//	                         that matches context.DeadlineExceeded, and goes on in the
	//	                         background
	//	Extend(ctx, d) error     lets the lock be trusted for at least d from now. One round trip,
	//	                         or none if the lock is trusted for that long already.
	//	                         Nothing is ever shortened. d is from 100 ms to 366 days
	//	Err() error              nil while the lock can be trusted; then ErrLost, ErrNotHeld or
	//	                         ErrClosed
	//	Done() <-chan struct{}   closed when Err is no longer nil
	//	Context() Context        the values of the call's context; cancelled, with Err as its cause,
	//	                         when Done is closed. Passed on, the context lets
	//	                         nested calls re-enter
	//	Deadline() time.Time     when trust ends unless the lease is renewed or extended
	//	Token() int64            the fencing token: larger than that of every ownership before
	//	Owner() string           the name given WithOwner, or one that is unique to this ownership
	//	Name() string            the lock's name as the call gave it
	//	Depth() int              how many Leases of this process share the hold now; 0 once
	//	                         the hold has ended
	//	Detach()                 unties the Lease from its goroutine, under WithIdentity(ByGoroutine)
	//
	// Trust ends a margin before the server may give the lock away: a tenth of the first ten
	// minutes of the lease and a hundredth of the rest, at least 10 ms.
	Lease = engine.Lease
	// Leases are the Leases of one LockAll. They are safe for concurrent use, and all methods may be
	// called on nil and on the zero Leases, which hold nothing.
	//
	//	Unlock(ctx) error        ends all Leases: one round trip where one server has the locks. All
	//	                         locks are released, also if one is lost; the error joins those of
	//	                         the single Unlocks. It waits no longer than one of them
	//	Err() error              nil while all locks can be trusted; else that of the first, in
	//	                         order, that cannot
	//	Done() <-chan struct{}   closed when Err is no longer nil
	//	Context() Context        cancelled when the first of the locks is lost or unlocked. Passed
	//	                         on, it lets nested calls re-enter each of the locks
	//	Deadline() time.Time     when trust in the first of them ends, unless renewed or extended
	//	Names() []string         in the order in which the locks were had
	//	Lease(name) *Lease       that of one lock; nil if the name is none of them
	//	Token(name) int64        the fencing token of one lock
	Leases = engine.Leases
	// Option configures a Locker.
	Option = engine.Option
	// LockOption configures one call.
	LockOption = engine.LockOption
	// Identity is how a nested call is recognised as the holder's own. An owner that the call names
	// comes first.
	Identity = engine.Identity
	// Error says which operation (Op) on which lock (Name) failed, and why (Err, which it unwraps).
	Error = engine.Error
	// HeldError is an ErrHeld with what the server last said of the holder: Owner, the Remaining time
	// until the lock is free if nobody renews it, and how many are Waiting in line. Owner is empty
	// while the lock is kept for the next in line, and while the server, having lost data, waits for
	// the holder to return. Failure is set only if the call waited and its last request failed.
	HeldError = engine.HeldError
	// WaitError says where a call stood in line when its context ended: its Position when it
	// joined, how long it had Waited, and the context's Err, which the error unwraps. Position 1 is
	// next; 0 means that no answer had given it a place, or that it was past the line: it had been
	// let in, was nested, or had some of the locks of a LockAll. Failure is why the call's last
	// request failed, if it did.
	WaitError = engine.WaitError
	// State is what a lock was doing when it was inspected: its Name, the largest Token given so
	// far, its Holder (nil: the lock is free), how many are Waiting, and the Waiters in order. If
	// something in the lock's keys makes no sense, Damaged says what; the rest of the State is what
	// could be read.
	State = engine.State
	// NodeView is what one node of a quorum says of a lock: see package quorum.
	NodeView = engine.NodeView
	// Holder is who has a lock: Owner, Note and Token; the Depth of the owner's Leases and the
	// number of its Holds, over all processes; Since when and for how long the lock has been Held;
	// and the Remaining time until the lock is free if nobody renews it.
	Holder = engine.Holder
	// Waiter is one place in line: the ID that names it to Evict, Owner, Note, Since when, and how
	// long it has Waited.
	Waiter = engine.Waiter
	// Overheard is something that the server told the clients of a lock. The Kind decides which of
	// the fields Name, ID, Owner, Note, Token and Remaining are set:
	//
	//	Acquired     a waiter (ID, Owner, Note) was given the lock with Token, for Remaining
	//	             unless it is renewed
	//	Lost         the ownership with Token was ended by force; ID, Owner and Note are of the
	//	             call that had it
	//	GaveUp       a waiter (ID, Owner, Note) was evicted
	//	Reconnected  none, not even Name: from here on everything is heard. Comes first, and again
	//	             after each failure
	Overheard = engine.Overheard
	// Observer is told what happens to the locks of a Locker. The Locker calls Observe(Event) in
	// order, one event at a time, a moment after each event happened. The calls come from a
	// goroutine of their own, so an Observer may call the Locker, Close included. At most 10,000
	// events wait; more are dropped.
	Observer = engine.Observer
	// Event is one thing that happened: its Kind, At what time, and the Context of the call (for
	// Released and Lost: of the Lease). As far as they apply to the Kind, it also has the lock's
	// Name, Owner, Token and Position, how long it Took, how many Locks, and Err.
	Event = engine.Event
	// Kind says what happened.
	Kind = engine.Kind
	// Interface is what Lockers of all kinds do.
	Interface = engine.Interface
)

// The states that an error can stand for; match them with errors.Is.
var (
	// ErrHeld: somebody else has the lock. errors.As finds a *HeldError that says who, and for how
	// long.
	ErrHeld = engine.ErrHeld
	// ErrQueueFull: the line already has as many waiters as MaxWaiters allows.
	ErrQueueFull = engine.ErrQueueFull
	// ErrLost: the lock was held and can no longer be trusted. Somebody else may have it.
	ErrLost = engine.ErrLost
	// ErrNotHeld: this Lease holds nothing, because it was unlocked before or is nil. Of
	// ForceUnlock: nobody has the lock, or it passed on each time. Of ForceToken: nobody has it with
	// that token.
	ErrNotHeld = engine.ErrNotHeld
	// ErrEvicted: somebody took the waiting call out of the line.
	ErrEvicted = engine.ErrEvicted
	// ErrNotWaiting: Evict found no such waiter.
	ErrNotWaiting = engine.ErrNotWaiting
	// ErrNotReplicated: too few replicas had the lock in time. The lock was given back, unless the
	// call was nested.
	ErrNotReplicated = engine.ErrNotReplicated
	// ErrClosed: the Locker was closed, or its Shutdown has begun.
	ErrClosed = engine.ErrClosed
	// ErrInvalid: a name or an option that makes no sense. Nothing was sent. If another kind of lock
	// or client could do it, the error matches errors.ErrUnsupported, too.
	ErrInvalid = engine.ErrInvalid
)

// How a nested call is recognised, unless the call names an owner.
const (
	// ByContext recognises a hold that the context carries, and the same goroutine inside Do.
	ByContext = engine.ByContext
	// ByGoroutine also ties a Lease of Lock or TryLock to the goroutine that asked for it, until
	// Detach. This is Redisson's thread identity. Do not use it where one goroutine acquires and
	// others work: two acquisitions of one name by a dispatcher would share the lock.
	ByGoroutine = engine.ByGoroutine
)

// What an Observer is told. Every call that succeeds and is no re-entry has one Acquired, and later
// one Released or Lost. So acquired = released + lost + held now. (A call that gave up at the very
// moment when the lock came has GaveUp alone.)
const (
	Queued      = engine.Queued      // a call waits, at Position; again if it joins the line anew
	Acquired    = engine.Acquired    // a call has the lock, after Took
	GaveUp      = engine.GaveUp      // a call ended without the lock, after Took, because of Err
	Released    = engine.Released    // an ownership was given back, after Took. Err: not confirmed
	Lost        = engine.Lost        // an ownership ended otherwise, after Took, because of Err
	Renewed     = engine.Renewed     // one request prolonged the leases of Locks locks
	PassedOver  = engine.PassedOver  // a waiter that was out of the line is back in its place
	Reconnected = engine.Reconnected // the subscription was made again; all waiters ask at once
)

// WithPrefix sets what all keys and channels begin with; default "fairlock". The prefix has 1 to
// 128 bytes and no braces. Nor may a colon in it be followed by one of the words that keys have
// there: lock, queue, waiters, token, wake, freed, plain. Lockers share locks if, and only if, they
// share the kind of lock, the prefix, the server and its database. Overhear hears those of all
// databases.
func WithPrefix(prefix string) Option { return engine.WithPrefix(prefix) }

// WithLease sets how long a lock outlives a holder that no longer renews it. Renewals go out at a
// third of the lease, or every 50 s if that is sooner. A waiter waits no longer than a lease for a
// holder that was killed. Default 30 s, from 100 ms to 366 days.
func WithLease(d time.Duration) Option { return engine.WithLease(d) }

// WithLogger sets where the Locker reports what it cannot tell any caller: a lock lost, a Lease
// dropped, a subscription made again. Default slog.Default(). The handler is called as an Observer
// is: in order, by a goroutine of its own.
func WithLogger(logger *slog.Logger) Option { return engine.WithLogger(logger) }

// WithIdentity sets how a nested call is recognised as the holder's own. Default ByContext.
func WithIdentity(identity Identity) Option { return engine.WithIdentity(identity) }

// WithObserver has the Locker tell o what happens. None by default; then it costs nothing.
func WithObserver(o Observer) Option { return engine.WithObserver(o) }

// LeaseFor gives the call a fixed lease. The lease ends d after the lock was acquired and is not
// renewed, whatever happens to this process. From 100 ms to 366 days. It ends later if Extend or a
// nested call asks for that. A nested call without LeaseFor puts the lock under a watchdog, until
// the lock is unlocked. A nested call that fails may have done so, too: LockAll re-enters what it
// can before it knows whether it has the rest.
func LeaseFor(d time.Duration) LockOption { return engine.LeaseFor(d) }

// WaitAtMost bounds the waiting, apart from the context. After d the call returns ErrHeld. It
// returns a *WaitError if the server said nothing, or has yet to confirm what the call asks for
// besides: LeaseFor, WithReplicas or WithFsync. 0 tries once.
func WaitAtMost(d time.Duration) LockOption { return engine.WaitAtMost(d) }

// MaxWaiters makes the call return ErrQueueFull at once if n or more calls wait already. The
// waiters of a killed process may be counted for another 15 s. Up to 64 calls that had the lock
// from another call of their process may be counted for about half a second. n is 1 or more.
func MaxWaiters(n int) LockOption { return engine.MaxWaiters(n) }

// WithOwner names the owner, in at most 256 bytes. All calls that name the same owner share the
// lock, in this process or any other. The lock is free when the last of their holds has ended. A
// call with this option is not recognised by context or goroutine.
func WithOwner(owner string) LockOption { return engine.WithOwner(owner) }

// OnQueued makes a call that has to wait call f, in the caller's own goroutine, with the call's
// position in line; 1 is next. f is called again whenever an answer tells another position: usually
// every 2.5 or 5 s, sooner with a short lease or while the client cannot be reached.
// The call goes on when f returns: a lock that is granted meanwhile is held until then. If f panics
// or ends its goroutine, the call leaves nothing behind. The server looks for the call among the
// first 10,000 waiters. That is work of the order of the position, so leave the option out where
// nobody looks.
func OnQueued(f func(position int)) LockOption { return engine.OnQueued(f) }

// WithReplicas makes the call succeed only once n replicas have confirmed that they have the lock,
// in the same round trip (WAIT), or in one more if the call had to wait. If fewer confirm within
// the timeout, the lock is given back and the error is ErrNotReplicated. This narrows what a
// failover can lose, and no more: a replica that did not confirm may be promoted. A nested call
// takes a round trip for it; if it fails, the outer hold remains. The timeout must be shorter than
// the client's read timeout.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return engine.WithReplicas(n, timeout)
}

// WithFsync makes the call succeed only once the server and n of its replicas have confirmed that
// they have the lock on disk, in the same round trip (WAITAOF), or in one more if the call had to
// wait. If that takes longer than the timeout, the lock is given back and the error is
// ErrNotReplicated. n = 0 is for a server without replicas: a crash and restart of that server then
// forgets no lock acquired so. A nested call takes a round trip for it; if it fails, the outer hold
// remains.
//
// The server needs appendonly yes, and must be Redis or Valkey 7.2 or later; on an older server the
// error is errors.ErrUnsupported. With appendfsync everysec a call takes up to a second. The
// timeout must be shorter than the client's read timeout. Not together with WithReplicas.
func WithFsync(n int, timeout time.Duration) LockOption { return engine.WithFsync(n, timeout) }

// Note is a short text that inspection shows beside the call. At most 256 bytes.
func Note(text string) LockOption { return engine.Note(text) }

// Margin is how much earlier than the server a client ends its trust in a lease of length d: a
// tenth of the first ten minutes of d and a hundredth of the rest, at least 10 ms. The margin pays
// for clocks that run apart and for the time that a holder takes to stop. A lock that was waited for
// begins with a claim of 3 s: until the first renewal, a second later, the margin is that of 3 s.
func Margin(d time.Duration) time.Duration { return rules.Margin(d) }
