package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// replicate returns nil when as many replicas have the hold as the turn's call asks for, and else
// an error. It asks at least once, also if the call may wait no longer.
func (c *Core) replicate(ctx context.Context, t *Turn, began time.Time, wait time.Duration) error {
	if t.Copies == nil {
		return nil
	}
	ask := func(ctx context.Context) error { return c.copied(ctx, t, *t.Copies, "it was given back") }
	if wait < 0 {
		return ask(ctx)
	}
	once := t.Copies.Need.Within + rules.InsistFor
	return bounded(ctx, Request{Wait: max(time.Until(began.Add(wait)), once)}, ask)
}

// copied is replicate for any call that shares t. fate is what becomes of the lock on an error.
func (c *Core) copied(ctx context.Context, t *Turn, copies Copies, fate string) error {
	got := copies.Have
	if got == nil { // the grant came by a message, or to another call: a renewal asks
		var err error
		if got, err = c.askReplicas(ctx, t, copies.Need); err != nil {
			return err
		}
	}
	if got.Enough(copies.Need) {
		return nil
	}
	return c.tooFewReplicas(ctx, t, copies.Need, got, fate)
}

// tooFewReplicas returns an error that says what is missing. If too few replicas confirmed, it asks
// the server how many are connected.
func (c *Core) tooFewReplicas(
	ctx context.Context, t *Turn, need lua.Replicas, got *lua.Confirmed, fate string,
) error {
	err := fmt.Errorf("%w: %d of %d within %v; %s", ErrNotReplicated, got.N, need.N, need.Within, fate)
	switch {
	case got.Err != nil:
		return fmt.Errorf("%w: %w", err, got.Err)
	case need.Disk && !got.Disk:
		err = fmt.Errorf("%w: the server itself does not have it on disk", err)
	}
	if got.N >= need.N {
		return err
	}
	attached := make(chan int, 1)
	_ = c.Await(ctx, func(ctx context.Context) {
		if n, failed := c.Server.Attached(context.WithoutCancel(ctx), t.hold.Keys); failed == nil {
			attached <- n
		}
	})
	select {
	case n := <-attached:
		if n < need.N {
			err = fmt.Errorf("%w: the server has %d connected", err, n)
		}
	default:
	}
	return err
}

// askReplicas renews t's hold and asks the replicas in the same request. It repeats the request
// until there is an answer, ctx ends, the hold is lost or the Locker is closed. A hold that the
// server does not have is lost, but if a call has a Lease on it, the server may have forgotten it
// and may yet write it again.
func (c *Core) askReplicas(ctx context.Context, t *Turn, need lua.Replicas) (got *lua.Confirmed, err error) {
	h := t.hold
	var backoff Backoff
	for {
		var after effects
		c.mu.Lock()
		if err = c.checkOpen(t, &after); err == nil {
			h.Requests.Sent()
		}
		renewal, leased := h.renewal(), len(t.shares) > 0
		c.mu.Unlock()
		after.carryOut(c)
		if err != nil {
			return got, err
		}
		type answer struct {
			lua.Renewed
			got *lua.Confirmed
		}
		answers := make(chan answer, 1)
		sent := time.Now()
		if err := c.Await(ctx, func(ctx context.Context) {
			a := answer{Renewed: lua.Renewed{Err: lua.ErrCutShort}} // unless Confirm returns
			// After takeIn: a turn might begin in between.
			defer func() { h.Requests.Done(a.Err) }()
			a.Renewed, a.got = c.Server.Confirm(context.WithoutCancel(ctx), renewal, need)
			c.takeIn(h, renewal, leased, sent, a.Renewed) // also if the call has gone
			answers <- a
		}); err != nil {
			return got, err
		}
		switch a := <-answers; {
		case a.Err == nil && a.Remaining > 0 && a.got != nil:
			return a.got, nil
		case a.Err != nil && !rules.Retryable(a.Err):
			return got, a.Err
		default:
			if err := backoff.waitOr(ctx, c.stop); err != nil {
				return got, err
			}
		}
	}
}

// takeIn takes in the answer to a question to the replicas. leased says that a call had a Lease on
// the hold.
func (c *Core) takeIn(h *Hold, r lua.Renewal, leased bool, sent time.Time, answer lua.Renewed) {
	switch {
	case answer.Err != nil:
	case answer.Remaining > 0:
		c.renewed(h, r, sent, answer)
	case leased:
		_ = c.reassert(context.Background(), h, r) // if it fails, the question is repeated
	default:
		c.Lose(h, rules.Vanished)
	}
}
