package reentrant

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// Backoff spaces repeated attempts: 10 ms, doubling up to a second.
type Backoff struct{ next, most time.Duration }

// Next is how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.next = min(max(2*b.next, 10*time.Millisecond), max(b.most, time.Second))
	return b.next
}

// Wait waits for the next attempt's time, or returns EndOf(ctx).
func (b *Backoff) Wait(ctx context.Context) error {
	timer := time.NewTimer(b.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return EndOf(ctx)
	}
}

// retryable reports whether the same request may succeed a moment later.
func retryable(err error) bool { return !lua.Answered(err) || lua.Passing(err) }

// Patient reports whether a call that waits goes on after a request failed so. One that the server has never answered
// does not, unless the request may have been executed, the client was merely busy, or the keys are on their way to another node.
func Patient(answered bool, err error) bool {
	waits := answered || lua.Unanswered(err) || lua.Moving(err) || errors.Is(err, redis.ErrPoolTimeout)
	return waits && retryable(err)
}
