package reentrant

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fairlock/locks/lua"
)

// How long Unlock waits for the server.
const (
	unlockAtMost  = 5 * time.Second
	unlockAtLeast = time.Second
)

const (
	expired  = "its lease ended before it could be renewed"
	vanished = "the server no longer has it: it expired, was forced, or its data is gone"
)

// release is a release under way. err may be read once done is closed.
type release struct {
	done chan struct{}
	err  error
}

// Unlock ends this Lease; the lock is released with the last Lease on it, in whatever order they end. One request then,
// none before.
//
// Of ctx only the values are used, and a deadline later than a second from now as an upper bound: a cancelled context
// unlocks as well as any. If the server does not answer in time, Unlock returns an error and the release is retried in
// the background until the lease would have ended; a second Unlock waits for that outcome.
//
//	nil          released; the next in line has it
//	ErrLost      it was lost before; somebody else may have held it since, and nothing was released
//	ErrNotHeld   this Lease was unlocked before, or is nil
func (l *Lease) Unlock(ctx context.Context) error {
	if l == nil {
		return &Error{"unlock", "", ErrNotHeld}
	}
	err := l.grip.unlock(ctx)
	runtime.KeepAlive(l) // or it could count as dropped while it is being unlocked
	if err == nil {
		return nil
	}
	return &Error{"unlock", l.grip.hold.Name, err}
}

func (g *grip) unlock(ctx context.Context) error {
	h, k := g.hold, g.hold.keeper
	var over ending
	k.mu.Lock()
	err := k.check(h, &over)
	if g.ended && (!g.last || g.answered) || h.state == lost {
		g.ended = true
		k.mu.Unlock()
		over.carryOut(k)
		if err == nil {
			err = ErrNotHeld
		}
		return err
	}
	if !g.ended {
		g.ended = true
		g.cleanup.Stop()
		h.remove(g)
		g.last = len(h.grips) == 0
		if g.last {
			k.letGo(h)
		} else {
			k.deepen(h)
		}
	}
	release := h.ending
	k.mu.Unlock()
	g.cancel(ErrNotHeld)
	if !g.last {
		return nil
	}
	return g.await(ctx, release)
}

// await waits for the outcome of the release, within the bounds that Unlock promises.
func (g *grip) await(ctx context.Context, r *release) error {
	limit := unlockAtMost
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(max(time.Until(deadline), unlockAtLeast), unlockAtMost)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		k := g.hold.keeper
		k.mu.Lock()
		g.answered = true
		k.mu.Unlock()
		return r.err
	case <-timer.C:
		return fmt.Errorf("not confirmed within %v, retried until the lease ends: %w", limit, context.DeadlineExceeded)
	}
}

// letGo ends the trust in h and sends its release. k.mu must be held.
func (k *Keeper) letGo(h *Hold) {
	h.state = releasing
	h.ending = &release{done: make(chan struct{})}
	k.forget(h)
	k.unwatch(h)
	k.Go(func() { k.release(h) })
}

// release repeats the release until it is answered or the lease has ended anyway.
func (k *Keeper) release(h *Hold) {
	ctx := context.Background()
	trusted := func() bool { return !passed(h.trusted, time.Now()) } // h.trusted and h.expires do not change any more
	var (
		unanswered bool // an attempt that was sent under trust may have been executed
		backoff    Backoff
		err        error
	)
	for {
		sent := trusted()
		var status lua.Status
		status, err = k.releaser.Release(ctx, h)
		if err == nil {
			if status != lua.Held && !unanswered {
				err = &reason{ErrLost, vanished}
			}
			break
		}
		unanswered = unanswered || sent && lua.Unanswered(err)
		if !retryable(err) || !time.Now().Before(h.expires) || k.over() {
			break
		}
		_ = backoff.Wait(ctx)
	}
	if err != nil && !errors.Is(err, ErrLost) {
		err = fmt.Errorf("the release failed and the lock stays until its lease ends: %w", err)
	}
	k.mu.Lock()
	h.state = gone
	k.finish()
	if errors.Is(err, ErrLost) {
		h.err = err
	}
	h.ending.err = err
	close(h.ending.done)
	k.mu.Unlock()
	k.releaser.Forget(h)
}

// over reports whether the Locker was closed: releases are then tried once and not again.
func (k *Keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}
