package engine

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

// unlockAtLast is Unlock at the end of a Do. If the function has unlocked the Lease, and has waited
// in vain, Do waits no longer: its caller has been kept for as long as an Unlock may keep it.
func (l *Lease) unlockAtLast(ctx context.Context) error {
	if s := l.share; s.waitedInVain() {
		return s.told(s.await(time.Now()))
	}
	return l.Unlock(ctx)
}

// waitedInVain reports whether an Unlock has waited in vain for an outcome that nobody knows yet.
func (s *share) waitedInVain() bool {
	s.turn.hold.core.mu.Lock()
	defer s.turn.hold.core.mu.Unlock()
	return s.unsettled && !s.answered && !s.awaited
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
	var limit time.Duration
	switch {
	case e.first:
		returned := false
		defer func() {
			if e.gives && !returned {
				s.stopsWaiting()
			}
		}()
		limit = s.leave(ctx, &e)
		returned = true
	case e.waits:
		limit = unlockBound(ctx)
	}
	if e.waits {
		return s.await(e.at.Add(limit))
	}
	return e.err
}

// ending is what an Unlock is about to do.
type ending struct {
	at    time.Time
	first bool  // it has ended the share: the contexts end
	later bool  // removeLater must follow, once they have
	gives bool  // it has ended the turn: giveBack must follow
	waits bool  // it waits for the outcome of the release
	late  bool  // but not at all: as unlockAtLast has it
	err   error // what it returns else
}

// until is when an Unlock stops waiting that waits for so long.
func (e *ending) until(limit time.Duration) time.Time {
	if e.late {
		return e.at
	}
	return e.at.Add(limit)
}

// finish ends the share. There are three cases: the share is held and ends now; it was the turn's
// last and nobody was told yet what became of the release; in all other cases it holds nothing.
// A share that ends beside others counts until its contexts have ended: another one that ends
// meanwhile would be the last, and would give the lock back.
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
		if e.later = len(t.shares) > 1; !e.later {
			s.remove(&e, e.at)
		}
	case again:
		e.waits = true
	case e.err == nil:
		e.err = ErrNotHeld
	}
	return e
}

// removeLater takes the share off its turn, unless finish did. Its contexts have ended.
func (s *share) removeLater(e *ending) {
	if !e.later {
		return
	}
	c := s.turn.hold.core
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if e.err = c.check(s.turn, now, &after); e.err == nil { // else it was lost, or Close gave it back
		s.remove(e, now)
	}
}

// remove takes the share off its turn, and ends the turn if it was the last. Core.mu must be held.
func (s *share) remove(e *ending, now time.Time) {
	t, c := s.turn, s.turn.hold.core
	s.last = t.remove(s, now)
	s.awaited = s.last
	e.gives, e.waits = s.last, s.last
	if s.last {
		c.endTurn(t)
	} else {
		c.watch(t.hold)
	}
}

// leave ends the contexts, and gives back the lock if the share was the turn's last. It returns how
// long to wait for the outcome. It asks ctx, which may be the user's. Nobody else would give back
// the lock, so it is given back also if ctx panics or ends the goroutine.
func (s *share) leave(ctx context.Context, e *ending) (limit time.Duration) {
	values, limit := context.Background(), unlockAtMost
	defer func() {
		if s.removeLater(e); e.gives {
			s.turn.hold.core.giveBack(values, s.turn, nil, limit, e.at)
		}
	}()
	s.cancel(ErrNotHeld)
	limit = unlockBound(ctx)
	values = detached(ctx)
	return limit
}

// forgo ends a Lease that no caller gets. It waits for nothing: if all other Leases of the turn
// have ended meanwhile, the lock is given back in the background, and forgo reports that.
func (l *Lease) forgo() (gives bool) {
	s, c := l.share, l.share.turn.hold.core
	e := s.finish()
	if e.first {
		s.cancel(ErrNotHeld)
		s.removeLater(&e)
	}
	if e.gives {
		c.Go(func() { c.giveBack(context.Background(), s.turn, nil, 0, e.at) })
		s.stopsWaiting()
	}
	runtime.KeepAlive(l) // or l could count as dropped meanwhile
	return e.gives
}

// unlockAll unlocks Leases of one Core side by side. It calls the user's contexts in the caller's
// goroutine alone: a panic in another one would end the process. (A hook of the client may ask for
// their values.) As in leave, all locks are given back whatever those do. At the end of a DoAll,
// none is waited for longer than unlockAtLast does.
func unlockAll(ctx context.Context, leases []*Lease, atLast bool) (err error) {
	switch {
	case len(leases) > 1:
	case atLast:
		return leases[0].unlockAtLast(ctx)
	default:
		return leases[0].Unlock(ctx)
	}
	all := make([]ending, len(leases))
	for i, l := range leases {
		late := atLast && l.share.waitedInVain()
		all[i] = l.share.finish()
		all[i].late = late
	}
	values, limit := context.Background(), unlockAtMost
	defer func() {
		var gives []int // the leases whose locks are given back now, and where they are
		var of []lua.Keys
		for i, l := range leases {
			if l.share.removeLater(&all[i]); all[i].gives {
				gives, of = append(gives, i), append(of, l.share.turn.hold.Keys)
			}
		}
		errs, c := make([]error, len(leases)), leases[0].share.turn.hold.core
		c.sideBySide(of, func(k int, by *lua.Server) {
			i := gives[k]
			c.giveBack(values, leases[i].share.turn, by, limit, all[i].at)
			all[i].err = leases[i].share.await(all[i].at.Add(limit)) // all requests wait for that
			all[i].waits = false
		})
		for i, e := range all {
			if e.waits { // for an earlier Unlock; or a hook ended the goroutine
				e.err = leases[i].share.await(e.until(limit))
			}
			errs[i] = leases[i].share.told(e.err)
		}
		runtime.KeepAlive(leases)
		err = errors.Join(errs...)
	}()
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

// stopsWaiting notes that an Unlock does not wait for the outcome of the release. Another may.
func (s *share) stopsWaiting() {
	c := s.turn.hold.core
	c.mu.Lock()
	defer c.mu.Unlock()
	s.awaited = false
}

// notInTime is the error of an Unlock that waited in vain. last is why the last attempt failed,
// if one did.
func notInTime(last error) error {
	err := fmt.Errorf("not confirmed in time, retried until the lease ends: %w", context.DeadlineExceeded)
	if last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, last)
	}
	return err
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
		c.awaitGivenBack(context.Background(), s.turn, until)
		c.mu.Lock()
	}
	if !r.settled {
		s.unsettled = true
		return notInTime(r.last)
	}
	s.answered = true // the outcome is told once
	return r.err
}
