package engine

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

// suspended is the cause of a loss if a hold expired while the process could not look at the clock.
const suspended = "the wall clock passed its end: the machine was suspended, or its clock set"

// LostTo is the ErrLost of a hold that never had a Lease.
func LostTo(why rules.Why) error { return &reason{ErrLost, causes[why]} }

// release is what becomes of a turn that ends. All of it is guarded by Core.mu.
type release struct {
	err     error // of the settled release; or why the lock is lost
	settled bool
	done    chan struct{} // made by the first call that waits; closed when the release is settled
}

// Unlock ends this Lease. The lock is released with the last Lease on it, in whatever order they
// end. That takes one request, or none if another call of this process has the next turn (see
// Locker.Lock); ending another Lease takes none.
//
// Of ctx only the values and the deadline are used, so a cancelled context unlocks as well as any.
// Unlock waits for 5 s at most, or until the deadline of ctx if that is sooner, but for a second at
// least. Then it returns an error that matches context.DeadlineExceeded, and goes on in the
// background. The outcome is settled when the server answers or the lease has ended; a second
// Unlock waits for that. After the lease the release is repeated for a while, so that a late
// request leaves nothing.
//
//	nil          released, or passed on; the next in line has the lock
//	ErrLost      the lock was lost before; somebody else may have held it since. Nothing was released
//	ErrNotHeld   this Lease was unlocked before, or is nil
func (l *Lease) Unlock(ctx context.Context) error {
	if l.none() {
		return &Error{"unlock", "", ErrNotHeld}
	}
	err := l.share.unlock(ctx)
	runtime.KeepAlive(l) // or l could count as dropped while it is being unlocked
	return l.share.told(err)
}

// told is the error of an Unlock.
func (s *share) told(err error) error {
	if err == nil {
		return nil
	}
	return &Error{"unlock", s.turn.Name, err}
}

func (s *share) unlock(ctx context.Context) error {
	e := s.finish()
	switch {
	case e.gives:
		return s.await(e.at.Add(s.giveBack(ctx, e.at)))
	case e.waits:
		return s.await(e.at.Add(unlockBound(ctx)))
	case e.first:
		s.cancel(ErrNotHeld)
	}
	return e.err
}

// ending is what an Unlock is about to do.
type ending struct {
	at    time.Time
	first bool  // it has ended the share: the contexts end
	gives bool  // it has ended the turn: giveBack must follow
	waits bool  // it waits for the outcome of the release
	err   error // what it returns else
}

// finish ends the share. There are three cases: the share is held and ends now; it was the turn's
// last and nobody was told yet what became of the release; in all other cases it holds nothing.
func (s *share) finish() (e ending) {
	t, c := s.turn, s.turn.hold.core
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.at = time.Now()
	e.err = c.check(t, e.at, &after)
	e.first = !s.ended && e.err == nil
	again := s.ended && s.last && !s.answered && !s.awaited
	s.ended = true
	switch {
	case e.first:
		s.cleanup.Stop()
		s.last = t.remove(s, e.at)
		s.awaited = s.last
		e.gives, e.waits = s.last, s.last
		if s.last {
			c.endTurn(t)
		} else {
			c.watch(t.hold)
		}
	case again:
		e.waits = true
	case e.err == nil:
		e.err = ErrNotHeld
	}
	return e
}

// giveBack ends the contexts and gives back the lock of a turn that ended at that time. It returns
// how long to wait for the outcome. It may call into the user's contexts. Nobody else would give
// back the lock, so it is given back also if one of them panics or ends the goroutine.
func (s *share) giveBack(ctx context.Context, ended time.Time) (limit time.Duration) {
	values, limit := context.Background(), unlockAtMost
	defer func() { s.turn.hold.core.giveBack(values, s.turn, nil, limit, ended) }()
	s.cancel(ErrNotHeld)
	limit = unlockBound(ctx)
	values = detached(ctx)
	return limit
}

// unlockAll unlocks Leases of one Core side by side. It calls the user's contexts in the caller's
// goroutine alone: a panic in another one would end the process. (A hook of the client may ask for
// their values.) As in giveBack, all locks are given back whatever those do.
func unlockAll(ctx context.Context, leases []*Lease) (err error) {
	if len(leases) == 1 {
		return leases[0].Unlock(ctx)
	}
	all := make([]ending, len(leases))
	var gives []int // the leases whose locks are given back now, and where they are
	var of []lua.Keys
	for i, l := range leases {
		if all[i] = l.share.finish(); all[i].gives {
			gives, of = append(gives, i), append(of, l.share.turn.hold.Keys)
		}
	}
	values, limit := context.Background(), unlockAtMost
	defer func() {
		errs, c := make([]error, len(leases)), leases[0].share.turn.hold.core
		c.sideBySide(of, func(k int, by *lua.Server) {
			i := gives[k]
			c.giveBack(values, leases[i].share.turn, by, limit, all[i].at)
			all[i].err = leases[i].share.await(all[i].at.Add(limit)) // all requests wait for that
			all[i].waits = false
		})
		for i, e := range all {
			if e.waits { // for an earlier Unlock; or a hook ended the goroutine
				e.err = leases[i].share.await(e.at.Add(limit))
			}
			errs[i] = leases[i].share.told(e.err)
		}
		runtime.KeepAlive(leases)
		err = errors.Join(errs...)
	}()
	for i, l := range leases {
		if all[i].first {
			l.share.end(ErrNotHeld) // this calls nothing of the user's
		}
	}
	for i, l := range leases {
		if all[i].first {
			l.share.cancel(ErrNotHeld)
		}
	}
	limit = unlockBound(ctx)
	values = detached(ctx)
	return nil
}

// detached returns a context with the values of ctx that never ends. It calls no method of ctx,
// which may be the user's.
func detached(ctx context.Context) context.Context {
	if ctx == nil || ctx == context.Background() {
		return context.Background()
	}
	return context.WithoutCancel(ctx)
}

// unlockBound is how long an Unlock waits.
func unlockBound(ctx context.Context) time.Duration {
	if ctx == nil { // as good as a context without end
		return unlockAtMost
	}
	if deadline, ok := ctx.Deadline(); ok {
		return min(max(time.Until(deadline), unlockAtLeast), unlockAtMost)
	}
	return unlockAtMost
}

// await waits for the outcome of the release, within the bounds that Unlock promises.
func (s *share) await(until time.Time) error {
	c, r := s.turn.hold.core, &s.turn.release
	c.mu.Lock()
	defer c.mu.Unlock()
	s.awaited = true
	defer func() { s.awaited = false }()
	if !r.settled {
		c.mu.Unlock()
		c.given(context.Background(), s.turn, until)
		c.mu.Lock()
	}
	if !r.settled {
		return fmt.Errorf("not confirmed in time, retried until the lease ends: %w", context.DeadlineExceeded)
	}
	s.answered = true // the outcome is told once
	return r.err
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
	goesOn := err != nil && errors.As(err, new(*GoesOn))
	stop := err != nil && c.enough(began, err)
	if goesOn && !stop && !rules.Passed(h.Term.Ends, time.Now()) {
		return false
	}
	stop = stop || goesOn
	c.mu.Lock()
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
		if !errors.Is(err, lua.ErrKept) { // else a request that is left to itself may still have to connect
			cancel()
		}
	}()
	began := time.Now()
	var backoff Backoff
	for {
		err = c.Whole(func() error { return send(ctx) })
		if time.Since(began) > lua.Liveness {
			backoff.most = lua.Liveness / 3 // an outage: there may be many tickets to take back
		}
		if err == nil || !rules.Retryable(err) || c.enough(began, err) || c.pause(ctx, &backoff) != nil {
			return
		}
	}
}

// lastWords is for how long a closed Locker repeats a release or a leave that the server answers it
// cannot do now, and waits for a release that goes on. The move of a slot is over in no time, and
// shall leave no lock held. A request that is not answered at all is not repeated.
const lastWords = time.Second

// enough reports whether to stop repeating a request, because the Locker is closed. began is when
// the request was first sent, err how it failed.
func (c *Core) enough(began time.Time, err error) bool {
	repeats := lua.Answered(err) || errors.As(err, new(*GoesOn))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed && (!repeats || min(time.Since(c.ended), time.Since(began)) > lastWords)
}
