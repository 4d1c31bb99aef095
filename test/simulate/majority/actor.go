package majority

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

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

	open []*call   // of what it does now
	had  []*belief // from those calls

	// Guarded by World.mu.
	inside   bool          // the user's own code runs in a call
	crashing bool          // it has panicked or ended the goroutine, and the call is not over yet
	back     time.Time     // when such code last returned, or a call was over by it
	kept     time.Duration // for how long it has run in all
}

func (a *actor) run() {
	for a.sleep(a.pause(), a.c.leaving) && !a.w.isEnding() {
		if a.c.isClosing() {
			a.isTurnedAway()
			return
		}
		a.open, a.had = nil, nil
		a.survives(a.act)
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
	stage.Pass(d, early, a.c.gone)
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
	if a.w.gathers() && a.chance(15) {
		a.several()
		return
	}
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
	lease, err := a.c.locker.TryLock(a.context(context.Background()), name, k.options...)
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
			b = a.believes(k, lease, nil)
			b.inDo = true
			defer a.w.referee.unlocks(b) // also where a panic ends the user's trust
			if a.c.runs(a.id) {
				a.use(ctx, b)
			}
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
	b := a.believes(k, lease, nil)
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
	began, kept := time.Now(), a.kept
	err := b.lease.Unlock(a.context(context.Background()))
	a.w.referee.unlocked(b, err)
	a.w.referee.unlocksIn(a.c, b, began, a.kept-kept)
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
		err := b.lease.Extend(a.context(ctx), a.upTo(10*time.Second)+100*time.Millisecond)
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
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	k := &call{op: "nested lock", name: outer.lk.name, within: true, until: time.Now().Add(3 * time.Second)}
	a.begins(k)
	if a.w.plan.Break.Nested {
		cancel()
	}
	lease, err := a.c.locker.Lock(a.context(short), k.name, k.options...)
	a.ended(k, err)
	if err != nil {
		a.w.referee.shutOut(ctx, outer, err)
		return
	}
	inner := a.believes(k, lease, outer)
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
	err := a.c.locker.ForceUnlock(a.context(context.Background()), name)
	a.w.history.Note(a.c.name, "forced %s: %v", name, err)
}

// evict takes a ticket out of the line.
func (a *actor) evict(name string) {
	if a.w.isFair() {
		return
	}
	state, err := a.c.locker.Inspect(a.context(context.Background()), name)
	if err != nil || len(state.Waiters) == 0 || !a.c.runs(a.id) {
		return
	}
	victim := state.Waiters[a.rand.IntN(len(state.Waiters))]
	a.w.mu.Lock()
	a.w.fault("evict", "%s of %s", victim.ID, name)
	a.w.mu.Unlock()
	err = a.c.locker.Evict(a.context(context.Background()), name, victim.ID)
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
