package reentrant

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// How long Unlock waits for the server.
const (
	unlockAtMost  = 5 * time.Second
	unlockAtLeast = time.Second
)

// causes are the reasons for a loss in words.
var causes = map[rules.Why]string{
	rules.Expired:   "its lease ended before it could be renewed",
	rules.Vanished:  "the server no longer has it: it expired, was forced, or its data is gone",
	rules.Forced:    "an administrator forced it",
	rules.Uncertain: "its lease ended before the server confirmed the release",
}

// suspended is the cause of a hold that expired while nobody looked at the clock.
const suspended = "the wall clock passed its end: the machine was suspended, or its clock set"

// LostTo is the ErrLost of a hold that never had a Lease.
func LostTo(why rules.Why) error { return &reason{ErrLost, causes[why]} }

// release is how a hold is released. All is guarded by the Keeper's mu.
type release struct {
	err  error         // once it is over; or why the hold is lost
	done chan struct{} // made by whoever has to wait; closed when it is over
	over bool
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
	if l.none() {
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
	limit := unlockBound(ctx)
	var over ending
	k.mu.Lock()
	err := k.check(h, &over)
	if first := !g.ended; first && h.State != rules.Held || !first && (!g.last || g.answered || g.awaited) {
		g.ended = true
		k.mu.Unlock()
		over.carryOut(k)
		if err == nil {
			err = ErrNotHeld
		}
		return err
	}
	first := !g.ended
	if first {
		g.ended = true
		g.cleanup.Stop()
		g.last = h.remove(g)
		g.awaited = g.last
		if g.last {
			k.letGo(h)
		} else {
			k.watch(h)
		}
	}
	k.mu.Unlock()
	g.cancel(ErrNotHeld)
	if !g.last {
		return nil
	}
	until := time.Now().Add(limit)
	if first {
		k.release(detached(ctx), h, limit)
	}
	return g.await(until)
}

// detached has the values of ctx and no end. It asks nothing of ctx, which may be the user's.
func detached(ctx context.Context) context.Context {
	if ctx == nil || ctx == context.Background() {
		return context.Background()
	}
	return context.WithoutCancel(ctx)
}

// unlockBound is how long an Unlock waits.
func unlockBound(ctx context.Context) time.Duration {
	if ctx == nil { // as good as any that has no end
		return unlockAtMost
	}
	if deadline, ok := ctx.Deadline(); ok {
		return min(max(time.Until(deadline), unlockAtLeast), unlockAtMost)
	}
	return unlockAtMost
}

// await waits for the outcome of the release, within the bounds that Unlock promises.
func (g *grip) await(until time.Time) error {
	k, r := g.hold.keeper, &g.hold.ending
	k.mu.Lock()
	defer k.mu.Unlock()
	g.awaited = true
	defer func() { g.awaited = false }()
	if !r.over {
		if r.done == nil {
			r.done = make(chan struct{})
		}
		done := r.done
		k.mu.Unlock()
		timer := time.NewTimer(time.Until(until))
		select {
		case <-done:
		case <-timer.C:
		}
		timer.Stop()
		k.mu.Lock()
	}
	if !r.over {
		return fmt.Errorf("not confirmed in time, retried until the lease ends: %w", context.DeadlineExceeded)
	}
	g.answered = true // it is told once
	return r.err
}

// letGo ends the trust in h. A release must follow. k.mu must be held.
func (k *Keeper) letGo(h *Hold) {
	h.Release()
	k.forget(h)
	k.unwatch(h)
}

// release sends the release of h, the first time from the caller's own goroutine if that is sure to come back in time, and
// repeats it until it is answered or the lease has ended anyway.
func (k *Keeper) release(ctx context.Context, h *Hold, limit time.Duration) {
	began := time.Now()
	if prompt, ok := k.server.Prompt(ctx, limit); ok && k.released(prompt, h, began) {
		return
	}
	k.Go(func() {
		var backoff Backoff
		for !k.released(ctx, h, began) {
			_ = backoff.Wait(ctx)
		}
	})
}

// released sends one release and reports whether there is an outcome. h does not change any more but for its end.
func (k *Keeper) released(ctx context.Context, h *Hold, began time.Time) bool {
	trusted := !rules.Passed(h.Trusted, time.Now())
	status, err := k.releaser.Release(ctx, h)
	stop := err != nil && k.enough(began, err)
	k.mu.Lock()
	outcome, why := h.Released(status, err, trusted, time.Now(), stop)
	switch outcome {
	case rules.Clean:
	case rules.Retry:
		k.mu.Unlock()
		return false
	case rules.Missing:
		err = &reason{ErrLost, causes[why]}
	case rules.TakeBack, rules.Refusal:
		if outcome == rules.TakeBack {
			k.Go(func() { k.takeBack(h) })
		}
		err = fmt.Errorf("the release failed and the lock stays until its lease ends: %w", err)
	}
	if h.adopted != nil {
		kind := Released
		if errors.Is(err, ErrLost) {
			kind = Lost
		}
		k.settings.Observe(h.ended(kind, err))
	}
	k.finish()
	h.ending.over, h.ending.err = true, err
	if h.ending.done != nil {
		close(h.ending.done)
	}
	k.mu.Unlock()
	k.releaser.Forget(h)
	return true
}

// Persist repeats the leave of a ticket with that lease until it is answered, no longer matters,
// or the Locker is closed. It matters for as long as the ticket may have the lock: each request
// of it that went unanswered may have been given a lease.
func (k *Keeper) Persist(lease time.Duration, send func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), rules.Patience(lease))
	defer cancel()
	began := time.Now()
	var backoff Backoff
	for {
		err := send(ctx)
		if time.Since(began) > lua.Liveness {
			backoff.most = lua.Liveness / 3 // an outage: those who are to be taken back may be many
		}
		if err == nil || !rules.Retryable(err) || k.enough(began, err) || backoff.Wait(ctx) != nil {
			return
		}
	}
}

// lastWords is for how long a Locker that is closed repeats what is to be released or left, if the
// server answers that it cannot be done now: the move of a slot passes in no time, and shall leave
// no lock held. What is not answered at all it tries once.
const lastWords = time.Second

// over reports whether the Locker was closed.
func (k *Keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// enough reports whether what began then, and has failed with err, is not to be repeated any more:
// the Locker is closed.
func (k *Keeper) enough(began time.Time, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed && (!lua.Answered(err) || min(time.Since(k.ended), time.Since(began)) > lastWords)
}
