package reentrant

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Reenter returns a further Lease on the hold that the call shares, or nil if there is none. It costs no round trip
// unless the call asks for more than the hold has: a longer lease, or a watchdog where there was none.
func (k *Keeper) Reenter(ctx context.Context, record string, r Request) (*Lease, error) {
	switch empty, closed := k.empty(); {
	case closed:
		return nil, ErrClosed
	case empty:
		return nil, nil
	}
	values, carried := detached(ctx), k.carriedBy(ctx, record)
	k.mu.Lock()
	h := k.find(carried, record, r)
	switch {
	case k.closed:
		k.mu.Unlock()
		return nil, ErrClosed
	case h == nil || !h.Live(time.Now()):
		k.mu.Unlock()
		return nil, nil
	}
	lease := k.grasp(values, h)
	short := h.FallsShort(r.Lease, r.Fixed, time.Now())
	k.mu.Unlock()
	if !short {
		return lease, nil
	}
	if err := k.lengthen(ctx, h, r); err != nil {
		_ = lease.Unlock(ctx) // the outer Lease remains, so this sends nothing
		return nil, err
	}
	if !r.Fixed {
		k.takeOver(h, r.Lease)
	}
	return lease, nil
}

// takeOver has a hold of a fixed lease be renewed, which has just been extended to that lease.
func (k *Keeper) takeOver(h *Hold, lease time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.State == rules.Held {
		h.TakenOver(lease)
		k.watch(h)
	}
}

// lengthen extends a hold for no longer than the call may wait, or a try insists.
func (k *Keeper) lengthen(ctx context.Context, h *Hold, r Request) error {
	wait := r.Wait
	switch {
	case wait < 0:
		return k.extend(ctx, h, r.Lease)
	case wait == 0:
		wait = rules.InsistFor
	}
	start := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, wait, context.DeadlineExceeded)
	defer cancel()
	err := k.extend(bounded, h, r.Lease)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return &WaitError{Waited: time.Since(start), Err: context.DeadlineExceeded}
	}
	return err
}

// empty reports whether nothing can be re-entered, and whether the Locker is closed.
func (k *Keeper) empty() (empty, closed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holds) == 0, k.closed
}

// Extend lets the lock be trusted for at least d from now, whatever lease it has: one round trip, or none if it is
// already. Nothing is ever shortened. On an error the lock is held as before, or, with ErrLost, no more.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.none() {
		return ErrNotHeld
	}
	h := l.grip.hold
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return &Error{"extend", h.Name, err}
	}
	if err := errors.Join(checkContext(ctx), checkLease("Extend", d)); err != nil {
		return wrap(err)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if time.Until(l.Deadline()) >= d {
		return nil
	}
	return wrap(h.keeper.extend(ctx, h, rules.LeaseToTrust(d)))
}

// extend asks for the lease until it is answered, ctx ends or the hold is lost.
func (k *Keeper) extend(ctx context.Context, h *Hold, lease time.Duration) error {
	var backoff Backoff
	for done := false; ; {
		var over ending
		k.mu.Lock()
		err := k.check(h, &over)
		var b batch
		if err == nil && !done {
			b.add(h)
			b.renewals[0].Lease = lease
		}
		k.mu.Unlock()
		over.carryOut(k)
		if len(b.holds) == 0 {
			return err
		}
		answer := make(chan error, 1)
		if err := k.Await(ctx, func() { answer <- k.renew(b.holds, b.renewals) }); err != nil {
			return err
		}
		switch err := <-answer; {
		case err == nil:
			done = true // and what the answer was, the hold now says
		case !rules.Retryable(err):
			return err
		default:
			if err := backoff.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// renewal is what the hold's next renewal says. k.mu must be held.
func (h *Hold) renewal() lua.Renewal {
	r := lua.Renewal{Keys: h.Keys, Ticket: h.Text, Token: h.Token, Since: h.Since, Lease: h.Lease, Depth: max(1, len(h.grips))}
	if h.Fixed {
		r.Until = h.Since + lua.Micros(h.Ticket.Lease.Microseconds())
	}
	return r
}

// remove takes g off its hold, and reports whether it was the last. k.mu must be held.
func (h *Hold) remove(g *grip) (last bool) {
	if i := slices.Index(h.grips, g); i >= 0 {
		h.grips = slices.Delete(h.grips, i, i+1)
	}
	g.unbind()
	return h.LeaseEnded(g.dropped, time.Now())
}
