package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Reenter returns a further Lease on the hold that the call shares, or nil if there is no such
// hold. It costs no round trip unless the call asks for more than the hold has: a longer lease, a
// watchdog for a hold without one, or the confirmation of replicas.
func (c *Core) Reenter(ctx context.Context, record string, r Request) (*Lease, error) {
	switch empty, closed := c.empty(); {
	case closed:
		return nil, ErrClosed
	case empty:
		return nil, nil
	}
	values, carried := lasting(ctx), c.carriedBy(ctx, record)
	c.mu.Lock()
	now := time.Now()
	t := c.find(carried, record, r, now)
	switch {
	case c.closed:
		c.mu.Unlock()
		return nil, ErrClosed
	case t == nil:
		c.mu.Unlock()
		return nil, nil
	}
	lease := c.lease(values, t, now)
	short := t.hold.AskFor(r.Lease, r.Fixed, now)
	c.mu.Unlock()
	if !short && !r.Replicas.Asked() {
		return lease, nil
	}
	return c.strengthen(ctx, lease, short, r)
}

// strengthen gives a hold what a nested call asks for and the hold lacks: a lease, if the hold's is
// too short, and replicas. The Lease is that call's. It ends if the hold cannot have all of that.
func (c *Core) strengthen(ctx context.Context, lease *Lease, short bool, r Request) (*Lease, error) {
	t, complete := lease.share.turn, false
	defer func() {
		// Also after a panic in the user's context. Once closed, no Close may wait for the release.
		if !complete && lease.forgo() && c.isClosed() {
			c.awaitGivenBack(context.Background(), t, time.Now().Add(lastWords))
		}
	}()
	if short {
		if err := c.lengthen(ctx, t, r); err != nil {
			return nil, err
		}
		if !r.Fixed {
			c.takeOver(t, r.Lease)
		}
	}
	if r.Replicas.Asked() { // replicas may have come and gone since the hold began
		err := bounded(ctx, r, func(ctx context.Context) error {
			return c.copied(ctx, t, Copies{Need: r.Replicas}, "the outer hold remains")
		})
		if err != nil {
			return nil, err
		}
	}
	complete = true
	return lease, nil
}

// takeOver puts a hold of a fixed lease under the watchdog. The hold has just been extended to the
// new lease.
func (c *Core) takeOver(t *Turn, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.live() {
		t.hold.TakenOver(lease)
		c.watch(t.hold)
	}
}

// lengthen extends a hold.
func (c *Core) lengthen(ctx context.Context, t *Turn, r Request) error {
	return bounded(ctx, r, func(ctx context.Context) error { return c.extend(ctx, t, r.Lease) })
}

// bounded calls f, for no longer than the call may wait, or than a try insists.
func bounded(ctx context.Context, r Request, f func(context.Context) error) error {
	wait := r.Wait
	switch {
	case wait < 0:
		return f(ctx)
	case wait == 0:
		wait = rules.InsistFor + r.Replicas.Within
	}
	start := time.Now()
	short, cancel := lua.Bounded(ctx, start.Add(wait), context.DeadlineExceeded)
	defer cancel()
	err := f(short)
	switch {
	case err == nil || short.Err() == nil:
		return err
	case !HasEnded(ctx):
		return &WaitError{Waited: time.Since(start), Err: context.DeadlineExceeded}
	case errors.Is(err, short.Err()): // which need not be that of ctx
		return EndOf(ctx)
	}
	return err
}

// empty reports whether nothing can be re-entered, and whether the Locker is closed.
func (c *Core) empty() (empty, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns) == 0, c.closed
}

// Extend lets the lock be trusted for at least d from now, whatever lease it has. It takes one
// round trip, or none if the lock is trusted for that long already. Extend never shortens anything.
// d is from 100 ms to 366 days, or the error is ErrInvalid. On an error the lock is held as before,
// or, with ErrLost, is held no longer.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.none() {
		return &Error{"extend", "", ErrNotHeld}
	}
	t := l.share.turn
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return &Error{"extend", t.Name, err}
	}
	lease := rules.LeaseToTrust(d)
	err := errors.Join(checkContext(ctx), checkLease("Extend", d))
	if err == nil {
		err = t.hold.core.protocol.Check(Request{Lease: lease})
	}
	if err != nil {
		return wrap(err)
	}
	if err := l.state(); err != nil {
		return wrap(err)
	}
	if rules.Until(l.Deadline(), time.Now()) >= d {
		return nil
	}
	return wrap(t.hold.core.extend(ctx, t, lease))
}

// extend asks for the lease until the hold has it, ctx ends, the hold is lost or the Locker is
// closed.
func (c *Core) extend(ctx context.Context, t *Turn, lease time.Duration) error {
	var backoff Backoff
	const rounded = 5 * time.Millisecond // more than what is lost where times are cut to milliseconds
	enough := time.Now().Add(lease - rules.Margin(lease) - rounded)
	for asked := false; ; {
		var after effects
		c.mu.Lock()
		err := c.checkOpen(t, &after)
		var b batch
		if err == nil && (!asked || rules.Passed(t.hold.TrustEnds, enough)) {
			t.hold.Asks(lease, time.Now())
			b.add(t.hold)
			b.renewals[0].Lease = max(b.renewals[0].Lease, lease)
		}
		c.mu.Unlock()
		after.carryOut(c)
		if len(b.holds) == 0 {
			return err
		}
		answer := make(chan error, 1)
		if err := c.Await(ctx, func(context.Context) { answer <- c.renew(b.holds, b.renewals) }); err != nil {
			return err
		}
		switch err := <-answer; {
		case err == nil && !asked:
			asked = true // the next check tells what the answer was
		case err != nil && !rules.Retryable(err):
			return err
		default:
			if err := backoff.waitOr(ctx, c.stop); err != nil {
				return err
			}
		}
	}
}

// renewal returns the hold's next renewal. c.mu must be held.
func (h *Hold) renewal() lua.Renewal {
	r := lua.Renewal{Keys: h.Keys, Ticket: h.Ticket, Token: h.Token, Since: h.Since, Lease: h.ForRenewal(time.Now()), Depth: max(1, len(h.turn.shares))}
	if h.turn != &h.first {
		r.Turn = *h.turn.Ticket
	}
	if h.Fixed {
		r.Until = h.Since + lua.Micros(h.Ticket.Lease.Microseconds())
	}
	return r
}
