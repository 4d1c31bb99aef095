package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// For is the call that a turn is for.
type For struct {
	Name   string
	Fixed  bool    // its lease is not renewed
	Copies *Copies // nil: none are needed
}

// Turn is one call's use of a Hold. A Hold has one turn after another. A turn has its own ticket,
// token, Leases and outcome. The exported fields do not change.
type Turn struct {
	For
	Ticket *lua.Ticket
	Token  int64
	hold   *Hold

	// Guarded by Core.mu.
	over    bool      // nobody has a Lease any more, or ever had one
	refused bool      // the Locker was closed before there was a Lease
	shares  []*share  // of the Leases that have not ended
	release release   // or how the lock was lost
	adopted *adoption // for the observer; nil: no observer, or no Lease yet
	next    *Turn     // in Core.turns: an earlier turn on the lock; usually nil

	// Room for what a turn usually has only one of.
	first share
	only  [1]*share
}

// Hold is the hold that t is a turn on.
func (t *Turn) Hold() *Hold { return t.hold }

// adoption is how a turn got its first Lease.
type adoption struct {
	at  time.Time
	ctx context.Context // of that Lease
}

// Adopt gives the first Lease on t. If its hold is still the claim of a fixed lease, the claim is
// confirmed first. If the call asks for replicas, they must have the lock. If either fails, the
// hold is lost or given back; if ctx ends meanwhile, it is given back. The call has waited since
// began, and may wait for wait in all; below zero is as long as ctx allows. A try (0) waits for the
// confirmation of its claim as long as that takes, and for replicas as long as a try insists.
//
// A Lease that Adopt returns was given before the Locker was closed. In every other case the lock
// is given back, also after a panic in the user's context.
func (c *Core) Adopt(ctx context.Context, t *Turn, began time.Time, wait time.Duration) (lease *Lease, err error) {
	defer func() {
		if lease == nil {
			c.Abandon(t)
		}
	}()
	if t.hold.ready != nil || t.Copies != nil {
		if err := c.secured(lua.Asked(ctx), t, began, wait); errors.Is(err, errEnded) {
			return nil, waited(ctx, began)
		} else if err != nil {
			return nil, err
		}
	}
	return c.adopt(ctx, t, began)
}

// secured returns nil when the claim has become the fixed lease and the replicas have the lock. Else
// it gives the lock back. A Close waits for it. So ctx must not be the user's, who may call Close as
// that is asked.
func (c *Core) secured(ctx context.Context, t *Turn, began time.Time, wait time.Duration) error {
	c.Begun()
	defer c.Done()
	if t.hold.ready != nil {
		if err := c.awaitFixedLease(ctx, t.hold, began, wait); err != nil {
			c.Abandon(t)
			return err
		}
	}
	err := c.replicate(ctx, t, began, wait)
	if err == nil {
		return nil
	}
	live := c.Abandon(t)
	if ctx.Err() != nil {
		return errEnded
	}
	if live { // the caller's next call should not find its own lock
		c.awaitGivenBack(ctx, t, time.Now().Add(rules.InsistFor))
	}
	return err
}

// Until calls acquire with a context that ends at that time, for that cause. The user's context may
// end the call as it is rid of that one: then the turn is given back.
func (c *Core) Until(
	ctx context.Context, at time.Time, cause error, acquire func(context.Context) (*Turn, error),
) (turn *Turn, err error) {
	bounded, cancel := lua.Bounded(ctx, at, cause)
	returned := false
	defer func() {
		if turn != nil && !returned {
			c.Abandon(turn)
		}
	}()
	defer func() {
		cancel()
		returned = true
	}()
	return acquire(bounded)
}

// awaitFixedLease returns nil when the claim has become the fixed lease, or was lost. On an error
// the caller gives the lock back.
func (c *Core) awaitFixedLease(ctx context.Context, h *Hold, began time.Time, wait time.Duration) error {
	select {
	case <-h.ready: // a callback may have kept the call past its wait
		return nil
	default:
	}
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(time.Until(began.Add(wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
		return &WaitError{Waited: time.Since(began), Err: context.DeadlineExceeded}
	case <-h.ready:
		return nil
	case <-ctx.Done():
		return errEnded
	case <-c.stop: // the watchdog no longer asks for the confirmation
		return ErrClosed
	}
}

// waited is the error of a call whose context ended before it had a Lease.
func waited(ctx context.Context, began time.Time) error {
	return &WaitError{Waited: time.Since(began), Err: EndOf(ctx)}
}

func (c *Core) adopt(ctx context.Context, t *Turn, began time.Time) (*Lease, error) {
	values := lasting(ctx)
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err := c.check(t, now, &after); err != nil {
		return nil, err
	}
	if !t.hold.Leasable(c.closed) {
		return nil, ErrClosed
	}
	c.remember(t)
	lease := c.lease(values, t, now)
	if c.Settings.Observer != nil {
		t.adopted = &adoption{now, lease.share.ctx}
		c.Settings.Observe(Event{
			Kind: Acquired, Context: lease.share.ctx, Name: t.Name, Owner: t.Ticket.Identity(), Token: t.Token, Took: now.Sub(began),
		})
	}
	return lease, nil
}

// Abandon gives back the lock of a turn on which there is no Lease. It reports whether there was a
// lock to give back: a turn that is over or lost has none.
func (c *Core) Abandon(t *Turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := t.live()
	if live {
		c.abandon(t)
	}
	return live
}

// abandon gives back the lock of a live turn. c.mu must be held.
func (c *Core) abandon(t *Turn) {
	c.endTurn(t)
	c.Go(func() { c.giveBack(context.Background(), t, nil, 0, time.Now()) }) // nobody waits for it
}

// handedOut reports whether a caller has a Lease on t. c.mu must be held.
func (t *Turn) handedOut() bool {
	return slices.ContainsFunc(t.shares, func(s *share) bool { return !s.gathered })
}

// awaitGivenBack returns when the lock of a turn was given back, when ctx ends, or at that time.
// c.mu must not be held: the context may be the user's.
func (c *Core) awaitGivenBack(ctx context.Context, t *Turn, until time.Time) {
	r := &t.release
	c.mu.Lock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.settled {
			close(r.done)
		}
	}
	done := r.done
	c.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// endTurn notes that nobody has a Lease on t any more. giveBack must follow. c.mu must be held.
func (c *Core) endTurn(t *Turn) {
	t.over = true
	c.forget(t)
	if t.hold.run == nil {
		c.beginRelease(t.hold)
	}
}

// remember puts t before the other turns on its lock that can be re-entered, if it is not one of
// them yet. Two calls that wait and name one owner get a turn each. c.mu must be held.
func (c *Core) remember(t *Turn) {
	record := t.hold.Keys.Record()
	latest := c.turns[record]
	for other := latest; other != nil; other = other.next {
		if other == t {
			return
		}
	}
	t.next, c.turns[record] = latest, t
}

// forget takes t out of the turns that can be re-entered. c.mu must be held.
func (c *Core) forget(t *Turn) {
	record := t.hold.Keys.Record()
	latest := c.turns[record]
	switch {
	case latest != t:
		for other := latest; other != nil; other = other.next {
			if other.next == t {
				other.next = t.next
				break
			}
		}
	case t.next == nil:
		delete(c.turns, record)
	default:
		c.turns[record] = t.next
	}
	t.next = nil
}

// live reports whether t has the lock, as far as its hold is known to be held. c.mu must be held.
func (t *Turn) live() bool { return !t.over && t.hold.State == rules.Held }

// isLive is live, for those who do not hold c.mu.
func (t *Turn) isLive() bool {
	t.hold.core.mu.Lock()
	defer t.hold.core.mu.Unlock()
	return t.live()
}

// reenterable reports whether t can be re-entered.
func (t *Turn) reenterable() bool {
	t.hold.core.mu.Lock()
	defer t.hold.core.mu.Unlock()
	return t.live() && t.hold.Live(time.Now())
}

// boundTo reports whether a Lease on t belongs to the goroutine. c.mu must be held.
func (t *Turn) boundTo(me goroutine) bool {
	if me == 0 || !t.live() {
		return false
	}
	for _, s := range t.shares {
		if s.goroutine == me {
			return true
		}
	}
	return false
}

// remove takes s off its turn, and reports whether s was the last share. c.mu must be held.
func (t *Turn) remove(s *share, now time.Time) (last bool) {
	if i := slices.Index(t.shares, s); i >= 0 {
		t.shares = slices.Delete(t.shares, i, i+1)
	}
	s.unbind()
	return t.hold.LeaseEnded(s.dropped, now)
}

// check returns nil while t can be trusted to have the lock, and else the reason why not. A hold
// whose time has passed is lost here. c.mu must be held; the caller carries after out once it is
// not.
func (c *Core) check(t *Turn, now time.Time, after *effects) error {
	if !t.over && t.hold.TrustOver(now) {
		c.lose(t.hold, rules.Expired, after)
	}
	switch {
	case isLost(t.release.err):
		return t.release.err
	case t.refused:
		return ErrClosed
	case !t.live():
		return ErrNotHeld
	}
	return nil
}

// checkOpen is check for a call that asks for more than the hold has. A closed Locker renews
// nothing, so the call must not make the lease longer. c.mu must be held.
func (c *Core) checkOpen(t *Turn, after *effects) error {
	err := c.check(t, time.Now(), after)
	if err == nil && c.closed {
		err = ErrClosed
	}
	return err
}
