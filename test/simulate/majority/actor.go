package majority

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/simulate/stage"
)

// actor is one goroutine of a client that uses locks.
type actor struct {
	w    *World
	c    *client
	id   uint64
	rand *rand.Rand

	serial int // of its last call
}

func (a *actor) run() {
	for a.sleep(a.pause(), a.c.leaving) && !a.w.isEnding() {
		if a.c.isClosing() {
			a.isTurnedAway()
			return
		}
		a.act()
	}
}

// pause is how long the goroutine does without a lock.
func (a *actor) pause() time.Duration {
	if a.w.plan.Herd {
		return 3*time.Second - time.Since(a.w.start)%(3*time.Second)
	}
	if a.chance(50) {
		return a.upTo(20 * time.Millisecond)
	}
	return a.upTo(2 * time.Second)
}

func (a *actor) upTo(d time.Duration) time.Duration { return stage.Span(a.rand, 1, d) }

func (a *actor) chance(percent int) bool { return a.rand.IntN(100) < percent }

// sleep waits for d, or until early is closed, and reports whether the client's code then still
// runs.
func (a *actor) sleep(d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-a.c.gone:
	}
	return a.c.runs(a.id)
}

func (a *actor) isGone() bool {
	select {
	case <-a.c.gone:
		return true
	default:
		return false
	}
}

func (c *client) isClosing() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.closing || c.crashed
}

// act does one thing that users do.
func (a *actor) act() {
	name := a.w.names[a.rand.IntN(len(a.w.names))]
	switch p := a.rand.IntN(1000); {
	case p < 680:
		a.lock(name)
	case p < 780:
		a.try(name)
	case p < 980:
		a.do(name)
	case p < 990:
		a.evict(name)
	default:
		a.force(name)
	}
}

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
	fixed   bool      // its lease is

	// What the call may return with, beside the lock.
	held, full, ends bool

	// Guarded by World.mu.
	done     bool
	endedAt  time.Time
	alone    bool          // the lock was free as it began, and nobody asked for it
	nth      int           // of the calls for its lock
	leased   bool          // it has had a Lease
	returned bool          // and the Lease was given back
	queued   time.Time     // when it was told that it waits
	evicted  bool          // somebody took it out of a line
	at       map[int]int64 // its place at each node
	stuck    time.Time     // when it last could not have had the lock
}

// begins makes a call known to the referee. It gives the call a note, by which its tickets can be
// recognised.
func (a *actor) begins(k *call) {
	k.actor, k.began, k.at = a, time.Now(), make(map[int]int64)
	a.serial++
	k.note = fmt.Sprintf("%d.%d", a.id, a.serial)
	k.options = append(k.options, quorum.Note(k.note))
	if !k.within {
		k.options = append(k.options, quorum.OnQueued(func(position int) { a.queued(k, position) }))
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.referee.begins(k)
	a.c.noted[k.note], a.c.calls[k] = k, struct{}{}
	a.w.history.Note(a.c.name, "%s of %s (%s) begins", k.op, k.name, k.note)
}

func (a *actor) queued(k *call, position int) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	k.queued = time.Now()
	if position < 1 {
		a.w.referee.violated(2, "a call of %s by %s stands at position %d", k.name, a.c.name, position)
	}
}

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
	return ctx, cancel
}

// lock takes a lock, uses it and unlocks it.
func (a *actor) lock(name string) {
	k := &call{op: "lock", name: name}
	ctx, cancel := a.asks(k)
	defer cancel()
	a.begins(k)
	lease, err := a.c.locker.Lock(ctx, name, k.options...)
	time.Sleep(a.w.plan.Break.Late)
	a.ended(k, err)
	if err == nil {
		a.has(k, lease)
	}
}

func (a *actor) try(name string) {
	k := &call{op: "trylock", name: name, held: true}
	a.begins(k)
	lease, err := a.c.locker.TryLock(context.Background(), name, k.options...)
	time.Sleep(a.w.plan.Break.Try)
	a.ended(k, err)
	if err == nil {
		a.has(k, lease)
	}
}

var errOwn = errors.New("the function's own")

// do does the same inside Do, where the function may fail or panic.
func (a *actor) do(name string) {
	k := &call{op: "do", name: name}
	ctx, cancel := a.asks(k)
	defer cancel()
	a.begins(k)
	var b *belief
	var own error
	panics, panicked := a.chance(10), false
	err := func() error {
		defer func() {
			if r := recover(); r != nil {
				if panicked = r == any(errOwn); !panicked {
					panic(r)
				}
			}
		}()
		return a.c.locker.Do(ctx, name, func(ctx context.Context, lease *quorum.Lease) error {
			a.ended(k, nil)
			b = a.w.referee.believe(k, lease, nil)
			if a.c.runs(a.id) {
				a.use(ctx, b)
			}
			a.w.referee.unlocks(b)
			if panics {
				panic(errOwn)
			}
			if a.chance(20) {
				own = errOwn
			}
			return own
		}, k.options...)
	}()
	switch {
	case !k.done:
		a.ended(k, err)
	case panicked, a.isGone():
		a.w.referee.finished(b)
	case own == nil:
		a.w.referee.unlocked(b, err)
	default:
		a.w.referee.finished(b)
		if !errors.Is(err, own) {
			a.w.referee.objects(6, "Do of %s lost its function's error: %v", a.c.name, err)
		}
	}
}

// has uses and unlocks a lease that a call returned.
func (a *actor) has(k *call, lease *quorum.Lease) {
	b := a.w.referee.believe(k, lease, nil)
	if !a.c.runs(a.id) {
		return
	}
	a.use(lease.Context(), b)
	if a.isGone() {
		return
	}
	a.unlock(b)
	if a.c.runs(a.id) && a.chance(10) {
		first := b.said
		err := lease.Unlock(context.Background())
		if !errors.Is(first, context.DeadlineExceeded) && !errors.Is(err, quorum.ErrNotHeld) && !errors.Is(err, quorum.ErrLost) {
			a.w.referee.objects(6, "%s unlocked twice and was told: %v, and then: %v", a.c.name, first, err)
		}
	}
}

func (a *actor) unlock(b *belief) {
	a.w.referee.unlocks(b)
	began := time.Now()
	err := b.lease.Unlock(context.Background())
	a.w.referee.unlocked(b, err)
	a.w.referee.unlocksIn(a.c, b, began)
}

// use works under the lock: it writes, nests, extends, or stays longer than it may.
func (a *actor) use(ctx context.Context, b *belief) {
	d := a.upTo(300 * time.Millisecond)
	switch p := a.rand.IntN(100); {
	case p < 40:
		d = a.upTo(20 * time.Millisecond)
	case p < 44:
		d = a.upTo(2 * a.c.lease)
	}
	stubborn := a.chance(30)
	if !a.works(b, d/2, stubborn) {
		return
	}
	switch p := a.rand.IntN(100); {
	case p < 12:
		a.nest(ctx, b)
	case p < 18:
		err := b.lease.Extend(ctx, a.upTo(10*time.Second)+100*time.Millisecond)
		a.w.history.Note(a.c.name, "extends %s: %v", b.lk.name, err)
	}
	if a.c.runs(a.id) && a.works(b, d/2, stubborn) && b.lease.Err() == nil {
		a.w.referee.uses(b)
	}
}

// works spends time under the lock. It returns false when the lock is no longer held or the client
// is gone.
func (a *actor) works(b *belief, d time.Duration, stubborn bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	lost := b.lease.Done()
	for {
		select {
		case <-timer.C:
			return a.c.runs(a.id)
		case <-lost:
			if !stubborn {
				time.Sleep(time.Microsecond) // a Close that ended the Lease goes on in this instant
				return a.c.runs(a.id) && false
			}
			lost = nil // a stubborn user does not look
		case <-a.c.gone:
			return false
		}
	}
}

// nest takes the lock again.
func (a *actor) nest(ctx context.Context, outer *belief) {
	// Without a limit, a call whose lock was lost in between would be one of many waiters.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	k := &call{op: "nested lock", name: outer.lk.name, within: true, until: time.Now().Add(3 * time.Second)}
	a.begins(k)
	lease, err := a.c.locker.Lock(ctx, k.name, k.options...)
	a.ended(k, err)
	if err != nil {
		return
	}
	inner := a.w.referee.believe(k, lease, outer)
	if a.sleep(a.upTo(100*time.Millisecond), nil) {
		a.unlock(inner)
	}
}

func (a *actor) force(name string) {
	if a.w.isFair() {
		return
	}
	a.w.mu.Lock()
	a.w.fault("force", "%s of %s", a.c.name, name)
	a.w.mu.Unlock()
	err := a.c.locker.ForceUnlock(context.Background(), name)
	a.w.history.Note(a.c.name, "forced %s: %v", name, err)
}

// evict takes a ticket out of the line.
func (a *actor) evict(name string) {
	if a.w.isFair() {
		return
	}
	state, err := a.c.locker.Inspect(context.Background(), name)
	if err != nil || len(state.Waiters) == 0 || !a.c.runs(a.id) {
		return
	}
	victim := state.Waiters[a.rand.IntN(len(state.Waiters))]
	a.w.mu.Lock()
	a.w.fault("evict", "%s of %s", victim.ID, name)
	a.w.mu.Unlock()
	err = a.c.locker.Evict(context.Background(), name, victim.ID)
	a.w.history.Note(a.c.name, "evicted %s from %s: %v", victim.ID, name, err)
}

// isTurnedAway judges that a closing Locker gives no lock to a caller without one (7).
func (a *actor) isTurnedAway() {
	if !a.sleep(time.Millisecond, nil) {
		return
	}
	lease, err := a.c.locker.TryLock(context.Background(), a.w.names[0])
	if lease != nil || !errors.Is(err, quorum.ErrClosed) {
		a.w.referee.objects(7, "%s closes, and says %v to somebody who asks for a lock, and holds none", a.c.name, err)
	}
}

// ended judges that a call returned in time, and with a permitted answer.
func (a *actor) ended(k *call, err error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	k.done, k.endedAt = true, time.Now()
	delete(a.c.calls, k)
	r := a.w.referee
	a.w.history.Note(a.c.name, "%s of %s (%s) ends: %v", k.op, k.name, k.note, err)
	if over := time.Since(k.until); !k.until.IsZero() && a.c.paused == nil && a.c.stood.Before(k.until) && !a.c.crashed {
		if r.stats.Over = max(r.stats.Over, over); over > bounded {
			r.violated(4, "a %s of %s by %s came back %v after its end", k.op, k.name, a.c.name, over)
		}
	}
	r.returns(k)
	switch {
	case errors.Is(err, engine.ErrEvicted) && !k.evicted && !a.c.closing:
		r.violated(2, "a %s of %s by %s was evicted by nobody: %v", k.op, k.name, a.c.name, err)
	case err == nil,
		k.held && errors.Is(err, quorum.ErrHeld), k.held && errors.Is(err, context.DeadlineExceeded),
		k.full && errors.Is(err, quorum.ErrQueueFull),
		k.ends && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)),
		k.within, a.c.closing || a.c.crashed, !r.calm():
	default:
		r.violated(4, "a %s of %s by %s failed in calm weather: %v", k.op, k.name, a.c.name, err)
	}
}
