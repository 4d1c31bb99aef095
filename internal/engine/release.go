package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// causes are the reasons for a loss in words.
var causes = map[rules.Why]string{
	rules.Expired:   "its lease ended before it could be renewed",
	rules.Vanished:  "the server no longer has it: it expired, was forced, or its data is gone",
	rules.Forced:    "an administrator forced it",
	rules.Uncertain: "its trust ended before the server confirmed the release",
}

// suspended is the cause of a loss if a hold expired while the process could not look at the clock.
const suspended = "the wall clock passed its end: the machine was suspended, or its clock set"

// LostTo is the ErrLost of a hold that never had a Lease.
func LostTo(why rules.Why) error { return &reason{ErrLost, causes[why]} }

// release is what becomes of a turn that ends. All of it is guarded by Core.mu.
type release struct {
	err     error // of the settled release; or why the lock is lost
	last    error // of the last attempt that failed
	settled bool
	done    chan struct{} // made by the first call that waits; closed when the release is settled
}

// giveBack gives back the lock after a turn that ended at that time: to the next call of its run,
// or by a release.
func (c *Core) giveBack(ctx context.Context, t *Turn, by *lua.Server, limit time.Duration, ended time.Time) {
	if t.hold.run != nil {
		if c.strategy.PassOn(t.hold) {
			return
		}
		c.mu.Lock()
		lost := t.hold.State != rules.Held
		if !lost {
			c.beginRelease(t.hold)
		}
		c.mu.Unlock()
		if lost {
			return
		}
	}
	c.release(ctx, t.hold, by, limit, ended)
}

// beginRelease ends the trust in h. A release must follow. c.mu must be held.
func (c *Core) beginRelease(h *Hold) {
	h.Release()
	c.unwatch(h)
}

// release sends the release of h, which began at that time, and repeats it until it is answered or
// the lease has ended. Then the outcome is settled; takeBack repeats it further if the lease ended
// unanswered. The first attempt uses the caller's own goroutine if the answer is sure to come back
// within limit; but if by is not nil, by sends it. With a limit of 0 the caller has no time at all:
// a prompt request would seem unanswered at once.
func (c *Core) release(ctx context.Context, h *Hold, by *lua.Server, limit time.Duration, began time.Time) {
	over, values := false, ctx
	defer func() { // also if a hook of the client's panics or ends the goroutine
		if !over {
			c.releaseAgain(values, h, by, began)
		}
	}()
	if by == nil {
		by = c.Server
		if prompt, ok := by.Prompt(ctx, limit); limit > 0 && ok {
			values = context.Background() // a hook that panics for their sake would end the process elsewhere
			over = c.released(ctx, prompt, h, began)
			values = ctx
		}
	}
}

// releaseAgain sends the release until there is an outcome.
func (c *Core) releaseAgain(ctx context.Context, h *Hold, by *lua.Server, began time.Time) {
	var backoff Backoff
	c.Repeat(func() bool { return c.isSettled(h) || c.released(ctx, by, h, began) }, func() { _ = c.pause(ctx, &backoff) })
}

// isSettled reports whether there is an outcome, of a release that was cut short.
func (c *Core) isSettled(h *Hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.turn.release.settled
}

// released sends one release and reports whether there is an outcome. From here on h changes only
// by its end. A release that is cut short counts as unanswered.
func (c *Core) released(ctx context.Context, server *lua.Server, h *Hold, began time.Time) (over bool) {
	trusted := !rules.Passed(h.TrustEnds, time.Now())
	var status lua.Was
	err := lua.ErrCutShort
	defer func() { over = c.outcome(h, status, err, trusted, began) }()
	status, err = c.strategy.Release(ctx, server, h)
	return over
}

// outcome takes in what came of a release, and reports whether that is the outcome.
func (c *Core) outcome(h *Hold, status lua.Was, err error, trusted bool, began time.Time) bool {
	goesOn := isGoesOn(err)
	stop := err != nil && c.enough(began, err)
	if goesOn && !stop && !rules.Passed(h.Term.Ends, time.Now()) {
		return false
	}
	stop = stop || goesOn
	c.mu.Lock()
	h.turn.release.last = err
	outcome, why := h.Released(status, err, trusted, time.Now(), stop)
	switch outcome {
	case rules.Clean:
	case rules.Retry:
		c.mu.Unlock()
		return false
	case rules.Missing:
		err = &reason{ErrLost, causes[why]}
	case rules.TakeBack, rules.Refusal:
		if outcome == rules.TakeBack {
			c.Go(func() { c.takeBack(h) })
		}
		err = h.notReleased(err)
	}
	c.settle(h.turn, err)
	c.finish()
	c.mu.Unlock()
	c.strategy.Forget(h)
	return true
}

// settle notes what became of a turn that was given back. c.mu must be held.
func (c *Core) settle(t *Turn, err error) {
	if t.adopted != nil {
		kind := Released
		if isLost(err) {
			kind = Lost
		}
		c.Settings.Observe(t.ended(kind, err))
	}
	t.release.settled, t.release.err = true, err
	if t.release.done != nil {
		close(t.release.done)
	}
}

// GoesOn is the error of a release that its strategy goes on with by itself. Another Release of the
// hold waits for its outcome.
type GoesOn struct{ Err error }

func (g *GoesOn) Error() string { return g.Err.Error() }

// Unwrap returns Err.
func (g *GoesOn) Unwrap() error { return g.Err }

// Final is the error of a release that its strategy has given up: another Release would send
// nothing.
type Final struct{ Err error }

func (f *Final) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Final) Unwrap() error { return f.Err }

func isFinal(err error) bool {
	_, ok := err.(*Final) //nolint:errorlint // as isGoesOn
	return ok
}

// isGoesOn asks no error of the user's: a panic in this goroutine could end the process.
func isGoesOn(err error) bool {
	_, ok := err.(*GoesOn) //nolint:errorlint // see above
	return ok
}

// notReleased is the error of a release that nobody knows to have been executed.
func (h *Hold) notReleased(err error) error {
	if !rules.Passed(h.Term.Ends, time.Now()) {
		return fmt.Errorf("the release failed and the lock stays until its lease ends: %w", err)
	}
	return fmt.Errorf("the release was not confirmed before the lease ended: %w", err)
}

// Persist repeats the leave of a ticket with that lease until the leave is answered or no longer
// matters, or the Locker is closed. The leave matters for as long as the ticket may have the lock:
// each unanswered request of the ticket may have been given a lease.
func (c *Core) Persist(lease time.Duration, send func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), rules.Patience(lease))
	var err error
	defer func() {
		if !lua.Kept(err) { // else a request that is left to itself may still have to connect
			cancel()
		}
	}()
	began := time.Now()
	var backoff Backoff
	for {
		err = c.InOwnGoroutine(func() error { return send(ctx) })
		if time.Since(began) > lua.Liveness {
			backoff.most = lua.Liveness / 3 // an outage: there may be many tickets to take back
		}
		if err == nil || !rules.Retryable(err) || c.enough(began, err) || c.pause(ctx, &backoff) != nil {
			return
		}
	}
}

// lastWords is for how long a closed Locker repeats a release or a leave that may do shortly, and
// waits for a release that goes on. What is over in no time shall leave no lock held. A request that
// is not answered at all is not repeated.
const lastWords = time.Second

// enough reports whether to stop repeating a request, because the Locker is closed. began is when
// the request was first sent, err how it failed.
func (c *Core) enough(began time.Time, err error) bool {
	repeats := isGoesOn(err) || !isFinal(err) && rules.Shortly(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed && (!repeats || min(time.Since(c.ended), time.Since(began)) > lastWords)
}
