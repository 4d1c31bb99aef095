// Package reentrant is what locks of both kinds have in common, and the plain lock: do I hold it,
// how often, until when?
//
// A [Hold] is one ownership that the server granted to one ticket. Every successful call has a
// [Lease] on it; nested calls add Leases to the same Hold, which ends with the last of them. A
// [Keeper] keeps the Holds of one Locker: who may re-enter one, its renewals, its release and its
// loss. Until when it can be trusted, and what each answer means for it, is said by internal/rules.
//
// The [Locker] of this package gives out plain locks, which have no line. What it has in common
// with the fair one is the [Core]. docs/design.md in the repository tells the whole protocol in
// order.
//
// # Owners of several processes
//
// An owner that is named ([WithOwner]) may hold a lock in several processes at once. The record
// then has one field for each process's Hold with a deadline of its own, and ends with the latest
// of them; the ownership is one, and so is its token.
//
//   - A Hold is renewed by its own process only. So a process that dies takes nothing from the
//     others and keeps nothing for itself beyond its own lease, whatever the others renew
//     meanwhile.
//   - A release takes out its own field and those that are overdue. If a live one is left, the
//     record's end moves back to its deadline: should that process be dead, the lock is free when
//     its lease is over, and not when the survivor's would have been. Those who wait are told that.
//   - Nothing tells a Hold how many others there are; Inspect does.
package reentrant

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/locks/lua"
)

// Releaser is the part of a Locker that tells the server, and the line if there is one, that a hold has ended.
type Releaser interface {
	// Release leaves the hold's ticket: one attempt.
	Release(context.Context, *Hold) (lua.Status, error)
	// Forget drops what the Locker keeps of a hold that ended without a release.
	Forget(*Hold)
}

// Keeper keeps the holds of one Locker. Its methods are safe for concurrent use.
type Keeper struct {
	Tasks // every goroutine of the Locker

	server   *lua.Server
	releaser Releaser
	settings Settings

	stop chan struct{} // closed by Close; ends the watchdog

	mu       sync.Mutex        // guards all below, and what Hold and grip say it guards
	holds    map[string]*Hold  // by record key: those that may be re-entered
	bound    map[goroutine]int // Leases that belong to a goroutine
	count    int               // holds that are held or releasing
	schedule schedule
	timer    *time.Timer // nil until the first hold
	alarm    time.Time   // when the timer fires; zero: it is not set
	ticked   time.Time   // when the watchdog last looked
	closed   bool
	ended    time.Time     // when it was
	drained  chan struct{} // closed when count is zero; nil unless somebody drains
}

// NewKeeper returns a Keeper without holds.
func NewKeeper(server *lua.Server, releaser Releaser, settings Settings) *Keeper {
	return &Keeper{
		server: server, releaser: releaser, settings: settings, stop: make(chan struct{}),
		holds: make(map[string]*Hold), bound: make(map[goroutine]int),
	}
}

// Await runs f in a goroutine and returns when f has, or with EndOf(ctx) as soon as that is done. go-redis itself
// returns seconds after its context.
func (k *Keeper) Await(ctx context.Context, f func()) error {
	done := make(chan struct{})
	k.Go(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	}
}

// Close stops renewals and ends the contexts of all leases with ErrClosed. What is held stays held until it is
// unlocked or expires.
func (k *Keeper) Close() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.closed, k.ended = true, time.Now()
	close(k.stop)
	var over ending
	for _, h := range k.schedule {
		over.add(h, ErrClosed)
	}
	k.mu.Unlock()
	over.carryOut(k)
}

// Drain returns when nothing is held, or with EndOf(ctx).
func (k *Keeper) Drain(ctx context.Context) error {
	k.mu.Lock()
	if k.count == 0 {
		k.mu.Unlock()
		return nil
	}
	if k.drained == nil {
		k.drained = make(chan struct{})
	}
	drained := k.drained
	k.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	}
}

// Within reports whether the call is made under a live hold of any lock of this Keeper: its context carries one, or its
// goroutine is inside Do.
func (k *Keeper) Within(ctx context.Context) bool {
	if h, _ := ctx.Value(anyHold{k}).(*Hold); h != nil { // with no mutex held: the context may be the user's
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.bound) > 0 && k.bound[current()] > 0
}
