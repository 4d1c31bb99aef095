// Package quorum gives out fair, fenced locks that outlive their servers: a majority of an odd
// number of masters, which do not replicate each other, keeps each lock. It is for work that must
// not be done twice even if a server is lost with its data; where a fencing token protects the work,
// one server and package fairlock do the same for a third of the cost.
//
//	nodes := []redis.UniversalClient{a, b, c} // a client for each master
//	locker := quorum.New(nodes)
//	defer locker.Close()
//
//	err := locker.Do(ctx, "order:42", func(ctx context.Context, l *quorum.Lease) error {
//		return work(ctx, l.Token())
//	})
//
// Each node has one vote for a lock, and gives it to the first in its line. A call has the lock
// while a majority of votes is its own. It stands at the same place in every line: the latest of
// those that a majority proposed, as in Skeen's total order. So each node hands over by itself, by
// one message, and no node is in charge. Calls that come together may split the votes: then whoever
// has votes without a majority gives them to whoever is older and asks for them, as in Maekawa's
// algorithm. No timer and no chance is part of that.
//
// # What is promised
//
// No two Leases trust one lock at one instant. This assumes two things of each node: its clock and a
// client's run apart by no more than the margin, and it has another run id after it has lost data. A
// restart gives a node another run id. Making it a replica and then a master again does not. Of
// three nodes, a holder with all votes loses its lock to another call only if two nodes break an
// assumption at once; a holder with two votes, if one node does. So a holder asks for the votes of
// all nodes as long as it holds.
//
// Tokens strictly increase per lock. They can fall if the clocks of two nodes are more than 3
// seconds apart and a node also loses its data, or if a clock is set back below a token after ten
// minutes in which nobody used the lock.
//
// A node that has lost what it granted, by a restart, a flush or by becoming another server, grants
// nothing for the longest lease of the quorum ([WithLongestLease]), and for 3 s and a claim at
// least. By then all that it forgot is over. So a new quorum grants nothing for as long, unless
// [Locker.Init] says that it is new. (A claim is as long as the lease, and 3 s at most.)
//
// # What it does not do
//
// WithOwner, WithReplicas, WithFsync and Overhear are errors.ErrUnsupported. Each client is of one
// master: with that of a cluster or a ring, every call is an error. The set of nodes must not
// change while it is in use: majorities of two sets need not meet. A new node takes the place of an
// old one by taking its address.
package quorum

import (
	"errors"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
)

// The vocabulary, which all Lockers share.
type (
	// Lease is one successful call's share of a lock: Unlock ends it.
	Lease = engine.Lease
	// Leases are the Leases of one LockAll, which end together.
	Leases = engine.Leases
	// LockOption configures one call.
	LockOption = engine.LockOption
	// Identity is how a nested call is recognised as the holder's own.
	Identity = engine.Identity
	// Error says which operation on which lock failed, and why.
	Error = engine.Error
	// HeldError is an ErrHeld with what a node said of the holder when it last answered the call.
	// After a wait, Waiting is the place of the call itself; else it is how many wait. Failure is why
	// nodes were away as it gave up, if no majority was left.
	HeldError = engine.HeldError
	// WaitError says how long a call waited, its position in line when it joined, and as Failure why
	// nodes were away as it gave up, if no majority was left.
	WaitError = engine.WaitError
	// State is what a lock was doing when it was inspected, for the majority and for each node.
	State = engine.State
	// NodeView is what one node says of a lock.
	NodeView = engine.NodeView
	// Holder is who has a lock.
	Holder = engine.Holder
	// Waiter is one place in the line.
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
	ErrHeld        = engine.ErrHeld       // somebody else has the lock
	ErrQueueFull   = engine.ErrQueueFull  // as many wait as MaxWaiters allows
	ErrLost        = engine.ErrLost       // the lock was held and can no longer be trusted
	ErrNotHeld     = engine.ErrNotHeld    // this Lease holds nothing
	ErrUnreachable = rules.ErrUnreachable // no majority of the nodes answers
	ErrEvicted     = engine.ErrEvicted    // somebody took the call out of the line
	ErrNotWaiting  = engine.ErrNotWaiting // Evict found no such waiter
	ErrClosed      = engine.ErrClosed     // the Locker was closed
	ErrInvalid     = engine.ErrInvalid    // a name or an option that makes no sense

	ErrNotShown = errors.New("no such waiter is among those that are shown") // Evict did not see all
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
	PassedOver = engine.PassedOver // a waiter was no longer in a node's line, and is put back in its place there
)
