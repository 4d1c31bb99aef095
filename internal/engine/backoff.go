package engine

import (
	"context"
	"time"
)

// Backoff spaces repeated attempts: 10 ms, doubling up to a second, or to most if that is longer.
type Backoff struct{ next, most time.Duration }

// Next is how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.next = min(max(2*b.next, 10*time.Millisecond), max(b.most, time.Second))
	return b.next
}

// Wait waits until the next attempt is due, or returns EndOf(ctx).
func (b *Backoff) Wait(ctx context.Context) error { return b.waitOr(ctx, nil) }

// waitOr is Wait, for no longer than until now is closed.
func (b *Backoff) waitOr(ctx context.Context, now <-chan struct{}) error {
	timer := time.NewTimer(b.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-now:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	}
}

// pause waits until the next attempt is due, or returns EndOf(ctx). When the Locker is closed
// meanwhile, the last attempt is due at once.
func (c *Core) pause(ctx context.Context, b *Backoff) error {
	if c.isClosed() {
		b.next = min(b.next, lastWords/20) // what follows has no longer than the last words
		return b.Wait(ctx)
	}
	return b.waitOr(ctx, c.stop)
}
