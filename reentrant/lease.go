package reentrant

import (
	"container/heap"
	"context"
	"runtime"
	"time"

	"github.com/fairlock/locks/internal/rules"
)

// Lease is one successful call's share of a lock. It is safe for concurrent use, and all its methods may be called on
// nil and on the zero Lease, which hold nothing.
//
// Trust in a lock ends a margin (a tenth of the first ten minutes of the lease and a hundredth of
// the rest, at least 10 ms) before the server may give it away. At that instant Done is closed,
// Err is ErrLost and Context is cancelled with cause ErrLost.
//
// It must not be copied: the copy's lock is no longer renewed when the original is gone.
type Lease struct {
	_    noCopy
	grip *grip
}

// noCopy has go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// none reports whether l is nil or the zero Lease.
func (l *Lease) none() bool { return l == nil || l.grip == nil }

// grip is what the Keeper knows of a Lease; the Lease itself it must not know, or it could not notice that it was
// dropped. All fields but carrying and ctx are guarded by the Keeper's mu.
type grip struct {
	carrying  // the hold; and what ctx is derived from
	ctx       context.Context
	end       context.CancelCauseFunc
	inner     context.CancelCauseFunc // of the context inside Do
	goroutine goroutine               // it belongs to; 0: none
	ended     bool                    // Unlock was called
	last      bool                    // and it was the hold's last: its outcome is the release's
	awaited   bool                    // and somebody waits for that outcome
	answered  bool                    // and it was returned to somebody
	dropped   bool
	cleanup   runtime.Cleanup
}

// cancel ends the contexts. The Keeper's mu must not be held.
func (g *grip) cancel(cause error) {
	g.end(cause)
	if inner := g.scope(); inner != nil {
		inner(cause)
	}
}

// scope ends the context inside Do; nil: there is none. To be asked for when ctx has ended:
// Scoped may be about to set it, and looks at ctx afterwards. The Keeper's mu must not be held.
func (g *grip) scope() context.CancelCauseFunc {
	k := g.hold.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	return g.inner
}

// grasp adds a Lease to h, with a detached context. k.mu must be held.
func (k *Keeper) grasp(values context.Context, h *Hold) *Lease {
	g := &h.first
	if g.hold != nil {
		g = new(grip)
	}
	g.carrying = carrying{values, h}
	g.ctx, g.end = context.WithCancelCause(&g.carrying)
	if k.settings.Identity == ByGoroutine {
		g.bind(current())
	}
	if h.grips == nil {
		h.grips = h.only[:0]
	}
	h.grips = append(h.grips, g)
	h.LeaseGiven(time.Now())
	k.watch(h)
	lease := &Lease{grip: g}
	g.cleanup = runtime.AddCleanup(lease, drop, g)
	return lease
}

// bind ties the Lease to a goroutine. The Keeper's mu must be held, for unbind too.
func (g *grip) bind(to goroutine) {
	g.unbind()
	if g.goroutine = to; to != 0 {
		g.hold.keeper.bound[to]++
	}
}

// drop reports a Lease that was garbage-collected without Unlock. When all of a hold's are, it is no longer renewed.
func drop(g *grip) {
	k := g.hold.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if g.ended || g.dropped || g.hold.State != rules.Held || k.closed {
		return
	}
	g.dropped = true
	g.unbind()
	h := g.hold
	k.settings.Logger.Warn("fairlock: a Lease was dropped without Unlock; it is not renewed any more",
		"lock", h.Name, "owner", h.Ticket.Identity(), "token", h.Token)
	h.LeaseDropped()
	heap.Fix(&k.schedule, int(h.index)) // it is due no sooner than it was: the timer may stay as it is
}

// Scoped binds l to the calling goroutine and derives from ctx the context inside Do: it dies with ctx and with
// the trust in the lock, whichever is first.
func (l *Lease) Scoped(ctx context.Context) context.Context {
	g := l.grip
	k := g.hold.keeper
	inner, cancel := context.WithCancelCause(&carrying{ctx, g.hold})
	k.mu.Lock()
	g.inner = cancel
	g.bind(current())
	k.mu.Unlock()
	if g.ctx.Err() != nil { // lost before inner was known
		cancel(context.Cause(g.ctx))
	}
	return inner
}

// Name is the lock's name as the call gave it.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.grip.hold.Name
}

// Token is the fencing token: it is larger than that of every ownership before. Hand it to whatever you write to and
// have it refuse smaller ones (Kleppmann, "How to do distributed locking"). Nested Leases share it. 0 for nil.
func (l *Lease) Token() int64 {
	if l.none() {
		return 0
	}
	return l.grip.hold.Token
}

// Owner is the name given WithOwner, or one that is unique to this ownership.
func (l *Lease) Owner() string {
	if l.none() {
		return ""
	}
	return l.grip.hold.Ticket.Identity()
}

// Context has the values of the context that the lock was acquired with, but not its cancellation. It is cancelled
// when the lock is lost (cause ErrLost), this Lease is unlocked (ErrNotHeld) or the Locker is closed (ErrClosed).
// Passed on, it lets nested calls re-enter.
func (l *Lease) Context() context.Context {
	if l.none() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	return l.grip.ctx
}

// Done is closed when Err is no longer nil.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil as long as the lock can be trusted; then ErrLost with the reason, ErrNotHeld after Unlock, or
// ErrClosed. It looks at the clocks itself, so it is right even just after a suspended machine woke up.
func (l *Lease) Err() error {
	if l.none() {
		return ErrNotHeld
	}
	h, k := l.grip.hold, l.grip.hold.keeper
	k.mu.Lock()
	var over ending
	err := k.check(h, &over)
	if err == nil && l.grip.ended {
		err = ErrNotHeld
	}
	if err == nil && k.closed {
		err = ErrClosed
	}
	k.mu.Unlock()
	over.carryOut(k)
	if err != nil {
		return &Error{"lease", h.Name, err}
	}
	return nil
}

// Deadline is when trust ends unless the lease is renewed or extended, by this process's monotonic clock. The zero time
// for nil.
func (l *Lease) Deadline() time.Time {
	if l.none() {
		return time.Time{}
	}
	k := l.grip.hold.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.grip.hold.Trusted
}

// Depth is how many Leases of this process share the hold now: 1 when nothing is nested, 0 when it has ended.
func (l *Lease) Depth() int {
	if l.none() {
		return 0
	}
	k := l.grip.hold.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.grip.hold.State != rules.Held {
		return 0
	}
	return len(l.grip.hold.grips)
}

// Detach unties the Lease from its goroutine: nested calls are then recognised by context or owner only. For handing a
// Lease on under WithIdentity(ByGoroutine).
func (l *Lease) Detach() {
	if l.none() {
		return
	}
	g, k := l.grip, l.grip.hold.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	g.unbind()
}

func (g *grip) unbind() {
	bound := g.hold.keeper.bound
	if bound[g.goroutine]--; bound[g.goroutine] <= 0 {
		delete(bound, g.goroutine)
	}
	g.goroutine = 0
}
