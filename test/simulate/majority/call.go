package majority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/quorum"
)

// call is one Lock, TryLock or Do.
type call struct {
	actor   *actor
	op      string
	name    string
	options []quorum.LockOption
	note    string
	began   time.Time
	until   time.Time // when its context or its time to wait ends; zero: never
	within  bool      // it is nested in another
	with    []*call   // all calls that are one for several locks; none: it is for one
	fixed   bool      // its lease is

	troubled bool          // its OnQueued function does what users' code does
	before   time.Duration // for how long the user's own code had kept the actor's calls as this one began

	// What the call may return with, beside the lock.
	held, full, ends bool

	// Guarded by World.mu.
	done     bool
	endedAt  time.Time
	left     time.Time     // when it began to leave: with its Unlock, or as it ended
	free     []*node       // as it began, where the lock was free; none if somebody else asked for it
	nth      int           // of the calls for its lock
	leased   bool          // it has had a Lease
	returned bool          // and the Lease was given back
	queued   time.Time     // when it was told that it waits
	tardy    bool          // a request of it came when no node knew any more that it had left
	evicted  bool          // somebody took it out of a line
	at       map[int]int64 // its place at each node
	stuck    time.Time     // when it last could not have had the lock
}

// begins makes a call known to the referee.
func (a *actor) begins(k *call) {
	a.marks(k)
	a.knows(k)
}

// marks gives a call a note, by which its tickets can be recognised, and its OnQueued function.
func (a *actor) marks(k *call) {
	a.serial++
	k.note = fmt.Sprintf("%d.%d", a.id, a.serial)
	k.options = append(k.options, quorum.Note(k.note))
	if !k.within {
		k.options = append(k.options, quorum.OnQueued(func(position int) { a.queued(k, position) }))
	}
}

// knows makes a call known that has its note.
func (a *actor) knows(k *call) {
	k.actor, k.began, k.at = a, time.Now(), make(map[int]int64)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.referee.begins(k)
	k.before = a.kept
	a.open = append(a.open, k)
	a.c.noted[k.note+" "+k.name], a.c.calls[k] = k, struct{}{}
	a.w.history.Note(a.c.name, "%s of %s (%s) begins", k.op, k.name, k.note)
}

// wasEvicted reports whether somebody took the call out of a line. World.mu must be held.
func (k *call) wasEvicted() bool {
	return k.evicted || slices.ContainsFunc(k.with, func(o *call) bool { return o.evicted })
}

// kept is for how long the user's own code has kept the call. World.mu must be held.
func (k *call) kept() time.Duration { return k.actor.kept - k.before }

// asks adds to a call the options that it asks for, and returns its context.
func (a *actor) asks(k *call) (context.Context, context.CancelFunc) {
	now := time.Now()
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	switch p := a.rand.IntN(100); {
	case p < 10:
		d := a.upTo(8 * time.Second)
		k.options, k.held, k.until = append(k.options, quorum.WaitAtMost(d)), true, now.Add(d)
	case p < 22:
		d := a.upTo(10 * time.Second)
		ctx, cancel = context.WithTimeout(ctx, d)
		k.ends, k.until = true, now.Add(d)
	case p < 28:
		d := a.upTo(5 * time.Second)
		ctx, cancel = context.WithCancel(ctx)
		k.ends, k.until = true, now.Add(d)
		time.AfterFunc(d, cancel)
	}
	if a.chance(10) {
		k.options, k.full = append(k.options, quorum.MaxWaiters(1+a.rand.IntN(6))), true
	}
	if a.chance(12) {
		k.options, k.fixed = append(k.options, quorum.LeaseFor(300*time.Millisecond+a.upTo(6*time.Second))), true
	}
	k.troubled = a.w.mischief() && a.chance(10)
	return a.context(ctx), cancel
}

// ended judges that a call returned in time, and with a permitted answer.
func (a *actor) ended(k *call, err error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.over(k, err)
	r := a.w.referee
	if over := time.Since(k.until) - k.kept(); !k.until.IsZero() && a.c.paused == nil && a.c.stood.Before(k.until) && !a.c.crashed {
		if r.stats.Over = max(r.stats.Over, over); over > bounded && !a.c.distracted.After(k.until) {
			r.violated(4, "a %s of %s by %s came back %v after its end", k.op, k.name, a.c.name, over)
		}
	}
	r.returns(k, err)
	switch {
	case errors.Is(err, engine.ErrEvicted) && !k.wasEvicted() && !a.c.closing:
		r.violated(2, "a %s of %s by %s was evicted by nobody: %v", k.op, k.name, a.c.name, err)
	case err == nil,
		k.held && errors.Is(err, quorum.ErrHeld), k.held && errors.Is(err, context.DeadlineExceeded),
		k.full && errors.Is(err, quorum.ErrQueueFull),
		k.ends && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)),
		k.kept() > 0 && errors.Is(err, quorum.ErrLost),               // its lease ended while the user's own code kept it
		len(k.with) > 0 && k.fixed && errors.Is(err, quorum.ErrLost), // one ended while it waited for another
		k.within, a.c.closing || a.c.crashed, !r.calm():
	default:
		r.violated(4, "a %s of %s by %s failed in calm weather: %v", k.op, k.name, a.c.name, err)
	}
}

// over notes the end of a call. World.mu must be held.
func (a *actor) over(k *call, how any) {
	k.done, k.endedAt = true, time.Now()
	if k.left.IsZero() {
		k.left = k.endedAt
	}
	delete(a.c.calls, k)
	a.w.history.Note(a.c.name, "%s of %s (%s) ends: %v", k.op, k.name, k.note, how)
}
