package engine

import (
	"container/heap"
	"context"
	"runtime"
	"time"

	"github.com/fairlock/locks/lua"
)

// Lease is one successful call's share of a lock. It is safe for concurrent use. All its methods
// may be called on nil and on the zero Lease, which hold nothing.
//
// Trust in a lock ends a margin before the server may give the lock away: a tenth of the first ten
// minutes of the lease and a hundredth of the rest, at least 10 ms. At that instant Done is closed,
// Err is ErrLost and Context is cancelled with cause ErrLost.
//
// A Lease must not be copied: the copy's lock is no longer renewed when the original is gone.
type Lease struct {
	_     noCopy
	share *share
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// none reports whether l is nil or the zero Lease.
func (l *Lease) none() bool { return l == nil || l.share == nil }

// share is what the Core knows of a Lease. The Core must not know the Lease itself, or it could not
// notice that the Lease was dropped. All fields but carrying and ctx are guarded by Core.mu.
type share struct {
	carrying  // the turn, and the parent of ctx
	leased    leased
	ctx       context.Context
	end       context.CancelCauseFunc
	joint     context.CancelCauseFunc // of the context of all Leases of a LockAll
	inner     context.CancelCauseFunc // of the context inside Do
	goroutine goroutine               // to which the Lease belongs; 0: none
	gathered  bool                    // it is a LockAll's, whose caller does not have it yet
	ended     bool                    // Unlock was called
	last      bool                    // Unlock ended the turn: the outcome is the release's
	awaited   bool                    // a call waits for that outcome
	unsettled bool                    // a call has waited for it in vain
	answered  bool                    // that outcome was returned to a call
	dropped   bool
	cleanup   runtime.Cleanup
}

// cancel ends the contexts: that of all Leases of a LockAll and that inside Do last, because joined
// or scoped may be about to set theirs, and looks at ctx afterwards. It calls nothing of the
// user's. Core.mu must not be held.
func (s *share) cancel(cause error) {
	s.end(cause)
	c := s.turn.hold.core
	c.mu.Lock()
	joint, inner := s.joint, s.inner
	c.mu.Unlock()
	for _, end := range []context.CancelCauseFunc{joint, inner} {
		if end != nil {
			end(cause)
		}
	}
}

// lease adds a Lease to t, with a detached context. c.mu must be held.
func (c *Core) lease(values context.Context, t *Turn, now time.Time) *Lease {
	s := &t.first
	if s.turn != nil {
		s = new(share)
	}
	s.carrying = carrying{values, t}
	ctx, end := context.WithCancelCause(&s.carrying)
	s.leased = leased{ctx, s}
	s.ctx, s.end = &s.leased, end
	if c.Settings.Identity == ByGoroutine {
		s.bind(current())
	}
	if t.shares == nil {
		t.shares = t.only[:0]
	}
	t.shares = append(t.shares, s)
	t.hold.LeaseGiven(now)
	c.watch(t.hold)
	lease := &Lease{share: s}
	s.cleanup = runtime.AddCleanup(lease, drop, s)
	return lease
}

// bind ties the Lease to a goroutine. Core.mu must be held, also for unbind.
func (s *share) bind(to goroutine) {
	s.unbind()
	if s.goroutine = to; to != 0 {
		s.turn.hold.core.bound[to]++
	}
}

// drop reports a Lease that was garbage-collected without Unlock. A hold is no longer renewed when
// all its Leases were dropped.
func drop(s *share) {
	c := s.turn.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ended || s.dropped || !s.turn.live() || c.closed {
		return
	}
	s.dropped = true
	s.unbind()
	t, h := s.turn, s.turn.hold
	c.Settings.Logger.Warn("fairlock: a Lease was dropped without Unlock; it is not renewed any more",
		"lock", t.Name, "owner", t.Ticket.Identity(), "token", t.Token)
	h.LeaseDropped()
	heap.Fix(&c.schedule, int(h.index)) // h is due no sooner than before: the timer may stay
}

// scoped binds l to the calling goroutine, if l still has its lock, and derives the context inside
// Do from ctx. That context ends with ctx or with the trust in the lock, whichever ends first. ctx
// is asked for its Done and its Deadline here only: elsewhere a panic would end the process.
func (l *Lease) scoped(ctx context.Context) context.Context {
	s := l.share
	c := s.turn.hold.core
	inner, cancel := context.WithCancelCause(&carrying{lua.Asked(ctx), s.turn})
	c.mu.Lock()
	s.inner = cancel
	if !s.ended && s.turn.live() { // else nobody would unbind it
		s.bind(current())
	}
	c.mu.Unlock()
	if s.ctx.Err() != nil { // the lock was lost before inner was known
		cancel(context.Cause(s.ctx))
	}
	return inner
}

// Name is the lock's name as the call gave it.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.share.turn.Name
}

// Token is the fencing token: larger than that of every ownership before. Pass it along with each
// write, and have the storage refuse smaller tokens (Kleppmann, "How to do distributed locking").
// Nested Leases share it. 0 for nil.
func (l *Lease) Token() int64 {
	if l.none() {
		return 0
	}
	return l.share.turn.Token
}

// Owner is the name given WithOwner, or a name that is unique to this ownership.
func (l *Lease) Owner() string {
	if l.none() {
		return ""
	}
	return l.share.turn.Ticket.Identity()
}

// Context has the values of the context with which the lock was acquired, but not its cancellation.
// It is cancelled when the lock is lost (cause ErrLost), this Lease is unlocked (ErrNotHeld) or the
// Locker is closed (ErrClosed). Passed on, the context lets nested calls re-enter.
func (l *Lease) Context() context.Context {
	if l.none() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(ErrNotHeld)
		return ctx
	}
	return l.share.ctx
}

// Done is closed when Err is no longer nil.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil as long as the lock can be trusted. Then it is ErrLost with the reason, ErrNotHeld
// after Unlock, or ErrClosed. Err looks at the clocks itself, so it is right even just after a
// suspended machine woke up.
func (l *Lease) Err() error {
	if l.none() {
		return ErrNotHeld
	}
	if err := l.state(); err != nil {
		return &Error{"lease", l.Name(), err}
	}
	return nil
}

// state is Err without the words around it.
func (l *Lease) state() error {
	t, c := l.share.turn, l.share.turn.hold.core
	c.mu.Lock()
	var after effects
	err := c.check(t, time.Now(), &after)
	if err == nil && l.share.ended {
		err = ErrNotHeld
	}
	if err == nil && c.closed {
		err = ErrClosed
	}
	c.mu.Unlock()
	after.carryOut(c)
	return err
}

// Deadline is when trust ends unless the lease is renewed or extended, by this process's monotonic
// clock. It is the zero time for nil.
func (l *Lease) Deadline() time.Time {
	if l.none() {
		return time.Time{}
	}
	c := l.share.turn.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.share.turn.hold.TrustEnds
}

// Depth is how many Leases of this process share the hold now: 1 when nothing is nested, 0 when the
// hold has ended.
func (l *Lease) Depth() int {
	if l.none() {
		return 0
	}
	c := l.share.turn.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.share.turn.live() {
		return 0
	}
	return len(l.share.turn.shares)
}

// Detach unties the Lease from its goroutine. Nested calls are then recognised by context or owner
// only. Use it to hand a Lease on under WithIdentity(ByGoroutine).
func (l *Lease) Detach() {
	if l.none() {
		return
	}
	s, c := l.share, l.share.turn.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	s.unbind()
}

func (s *share) unbind() {
	bound := s.turn.hold.core.bound
	if bound[s.goroutine]--; bound[s.goroutine] <= 0 {
		delete(bound, s.goroutine)
	}
	s.goroutine = 0
}
