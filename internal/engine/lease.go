package engine

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
	_     noCopy
	share *share
}

// noCopy has go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// none reports whether l is nil or the zero Lease.
func (l *Lease) none() bool { return l == nil || l.share == nil }

// share is what the Core knows of a Lease; the Lease itself it must not know, or it could not notice that it was
// dropped. All fields but carrying and ctx are guarded by Core.mu.
type share struct {
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

// cancel ends the contexts. Core.mu must not be held.
func (s *share) cancel(cause error) {
	s.end(cause)
	if inner := s.scope(); inner != nil {
		inner(cause)
	}
}

// scope ends the context inside Do; nil: there is none. To be asked for when ctx has ended:
// scoped may be about to set it, and looks at ctx afterwards. Core.mu must not be held.
func (s *share) scope() context.CancelCauseFunc {
	c := s.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.inner
}

// lease adds a Lease to h, with a detached context. c.mu must be held.
func (c *Core) lease(values context.Context, h *Hold) *Lease {
	s := &h.first
	if s.hold != nil {
		s = new(share)
	}
	s.carrying = carrying{values, h}
	s.ctx, s.end = context.WithCancelCause(&s.carrying)
	if c.Settings.Identity == ByGoroutine {
		s.bind(current())
	}
	if h.shares == nil {
		h.shares = h.only[:0]
	}
	h.shares = append(h.shares, s)
	h.LeaseGiven(time.Now())
	c.watch(h)
	lease := &Lease{share: s}
	s.cleanup = runtime.AddCleanup(lease, drop, s)
	return lease
}

// bind ties the Lease to a goroutine. Core.mu must be held, for unbind too.
func (s *share) bind(to goroutine) {
	s.unbind()
	if s.goroutine = to; to != 0 {
		s.hold.core.bound[to]++
	}
}

// drop reports a Lease that was garbage-collected without Unlock. When all of a hold's are, it is no longer renewed.
func drop(s *share) {
	c := s.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.ended || s.dropped || s.hold.State != rules.Held || c.closed {
		return
	}
	s.dropped = true
	s.unbind()
	h := s.hold
	c.Settings.Logger.Warn("fairlock: a Lease was dropped without Unlock; it is not renewed any more",
		"lock", h.Name, "owner", h.Ticket.Identity(), "token", h.Token)
	h.LeaseDropped()
	heap.Fix(&c.schedule, int(h.index)) // it is due no sooner than it was: the timer may stay as it is
}

// scoped binds l to the calling goroutine and derives from ctx the context inside Do: it dies with ctx and with
// the trust in the lock, whichever is first.
func (l *Lease) scoped(ctx context.Context) context.Context {
	s := l.share
	c := s.hold.core
	inner, cancel := context.WithCancelCause(&carrying{ctx, s.hold})
	c.mu.Lock()
	s.inner = cancel
	s.bind(current())
	c.mu.Unlock()
	if s.ctx.Err() != nil { // lost before inner was known
		cancel(context.Cause(s.ctx))
	}
	return inner
}

// Name is the lock's name as the call gave it.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.share.hold.Name
}

// Token is the fencing token: it is larger than that of every ownership before. Hand it to whatever you write to and
// have it refuse smaller ones (Kleppmann, "How to do distributed locking"). Nested Leases share it. 0 for nil.
func (l *Lease) Token() int64 {
	if l.none() {
		return 0
	}
	return l.share.hold.Token
}

// Owner is the name given WithOwner, or one that is unique to this ownership.
func (l *Lease) Owner() string {
	if l.none() {
		return ""
	}
	return l.share.hold.Ticket.Identity()
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
	return l.share.ctx
}

// Done is closed when Err is no longer nil.
func (l *Lease) Done() <-chan struct{} { return l.Context().Done() }

// Err is nil as long as the lock can be trusted; then ErrLost with the reason, ErrNotHeld after Unlock, or
// ErrClosed. It looks at the clocks itself, so it is right even just after a suspended machine woke up.
func (l *Lease) Err() error {
	if l.none() {
		return ErrNotHeld
	}
	if err := l.state(); err != nil {
		return &Error{"lease", l.Name(), err}
	}
	return nil
}

// state is Err without words around it.
func (l *Lease) state() error {
	h, c := l.share.hold, l.share.hold.core
	c.mu.Lock()
	var after effects
	err := c.check(h, &after)
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

// Deadline is when trust ends unless the lease is renewed or extended, by this process's monotonic clock. The zero time
// for nil.
func (l *Lease) Deadline() time.Time {
	if l.none() {
		return time.Time{}
	}
	c := l.share.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.share.hold.Trusted
}

// Depth is how many Leases of this process share the hold now: 1 when nothing is nested, 0 when it has ended.
func (l *Lease) Depth() int {
	if l.none() {
		return 0
	}
	c := l.share.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.share.hold.State != rules.Held {
		return 0
	}
	return len(l.share.hold.shares)
}

// Detach unties the Lease from its goroutine: nested calls are then recognised by context or owner only. For handing a
// Lease on under WithIdentity(ByGoroutine).
func (l *Lease) Detach() {
	if l.none() {
		return
	}
	s, c := l.share, l.share.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	s.unbind()
}

func (s *share) unbind() {
	bound := s.hold.core.bound
	if bound[s.goroutine]--; bound[s.goroutine] <= 0 {
		delete(bound, s.goroutine)
	}
	s.goroutine = 0
}
