package simulate

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// call is one Lock, TryLock or Do.
type call struct {
	actor   *actor
	op      string
	name    string
	options []fairlock.LockOption
	began   time.Time
	until   time.Time // when its context or its time to wait ends; zero: never
	waits   bool      // the server had the call wait
	done    bool
	endedAt time.Time
	note    string // the note in all its tickets
	crashes bool   // the user's own code may panic under it, or end its goroutine

	// Guarded by World.mu.
	kept     time.Duration // for how long the user's own code has kept the call
	inside   int           // how often that code runs now
	back     time.Time     // when that code last returned
	answered bool          // the server has said that the call waits
	heard    time.Time     // when a message last said so
	evicted  time.Time     // when a script first took the call out of the line; zero: none did
	busy     bool          // meanwhile a try may have found that the lock is not free
	// What the call may return with, beside the lock.
	held, full, ends, within bool
}

// options adds to a call the options that it asks for, and returns its context.
func (a *actor) options(k *call, options []fairlock.LockOption) (context.Context, context.CancelFunc) {
	now := time.Now()
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	k.options = options
	switch p := a.rand.IntN(100); {
	case p < 10:
		d := a.upTo(8 * time.Second)
		k.options, k.held, k.until = append(k.options, fairlock.WaitAtMost(d)), true, now.Add(d)
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
		k.options, k.full = append(k.options, fairlock.MaxWaiters(1+a.rand.IntN(5))), true
	}
	if a.chance(15) {
		k.options = append(k.options, fairlock.LeaseFor(a.fixed()))
	}
	return a.trouble(ctx, k), cancel
}

// fixed returns the length of a lease that is not renewed.
func (a *actor) fixed() time.Duration {
	if !a.w.long() {
		return 300*time.Millisecond + a.upTo(6*time.Second)
	}
	return min(time.Hour, time.Duration(float64(100*time.Millisecond)*math.Exp(a.rand.Float64()*math.Log(36_000))))
}

func (a *actor) begins(k *call) {
	k.began = time.Now()
	a.open = append(a.open, k)
	if k.note == "" {
		a.mark(k)
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.history.Note(a.c.name, "%s of %s by %d begins", k.op, k.name, a.id)
	a.c.calls[k] = struct{}{}
}

// ended judges that a call returned in time, and with a permitted answer.
func (a *actor) ended(k *call, err error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.over(k, err)
	r := a.w.referee
	if !k.until.IsZero() {
		r.inBounds(a.c, k.op, k.until, 200*time.Millisecond+k.kept)
	}
	r.patient(k, err)
	switch {
	// A plain lock refuses from what its process knows.
	case k.op == "trylock" && errors.Is(err, fairlock.ErrHeld) && !k.busy && !r.w.plan.Plain:
		r.violated(4, "a try of %s by %s was turned away, and nobody had the lock", k.name, a.c.name)
	case err == nil,
		k.held && errors.Is(err, fairlock.ErrHeld), k.held && errors.Is(err, context.DeadlineExceeded),
		k.full && errors.Is(err, fairlock.ErrQueueFull),
		k.ends && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)),
		// The user's own code kept the call for longer than its lease.
		k.kept > 0 && errors.Is(err, fairlock.ErrLost),
		k.within, a.c.closing || a.c.crashed, !r.calm():
	default:
		r.violated(4, "a %s of %s by %s failed in calm weather: %v", k.op, k.name, a.c.name, err)
	}
}

// finds notes that calls under way may find a lock busy. mu must be held.
func (w *World) finds(name string) {
	for _, c := range w.clients {
		for k := range c.calls {
			k.busy = k.busy || k.name == name
		}
	}
}

// ends notes that a call ended without returning.
func (a *actor) ends(k *call, how string) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.over(k, how)
}

// over notes the end of a call. World.mu must be held.
func (a *actor) over(k *call, how any) {
	k.done, k.endedAt = true, time.Now()
	delete(a.c.calls, k)
	a.w.history.Note(a.c.name, "%s of %s by %d ends: %v", k.op, k.name, a.id, how)
}

// told reports whether the client knows that the call waits. It takes in a message in no time,
// unless the message comes while it is paused.
func (k *call) told() bool {
	return k.answered || !k.heard.IsZero() && time.Since(k.heard) > 10*time.Millisecond
}

// patient judges two things: no waiter fails because of a passing state (4), and none is evicted
// without an eviction (2).
func (r *referee) patient(k *call, err error) {
	c := k.actor.c
	switch {
	case err == nil || c.closing || c.crashed:
	case k.told() && k.waits && passes(err):
		r.violated(4, "a %s of %s by %s waited, and failed for what passes: %v", k.op, k.name, c.name, err)
	case errors.Is(err, fairlock.ErrEvicted) && k.evicted.IsZero():
		r.violated(2, "a %s of %s by %s was evicted by nobody: %v", k.op, k.name, c.name, err)
	}
}

// returned judges that a call is back within most of its beginning.
func (r *referee) returned(c *client, op string, began time.Time, most time.Duration) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.inBounds(c, op, began.Add(most), 200*time.Millisecond)
}

// inBounds judges that a call has returned in time. World.mu must be held.
func (r *referee) inBounds(c *client, op string, until time.Time, slack time.Duration) {
	if over := time.Since(until); over > slack && c.paused == nil && !c.crashed {
		if since, able := c.link.able(); able && since.Before(until) {
			r.violated(4, "a %s by %s came back %v after its end", op, c.name, over)
		}
	}
}

// did judges what Do said.
func (r *referee) did(b *belief, own, err error) {
	if own == nil {
		r.unlocked(b, err)
		return
	}
	r.finished(b)
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if !errors.Is(err, own) {
		r.violated(6, "Do of %s lost its function's error: %v", b.by.name, err)
	}
}
