package majority

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/simulate/stage"
)

// queued is the OnQueued function of a call, which does what users' code does. It runs in the
// goroutine of the call.
func (a *actor) queued(k *call, position int) {
	a.w.mu.Lock()
	if len(k.with) == 0 { // else it waits for one of its locks, and nobody says which
		k.queued = time.Now()
	}
	if position < 1 {
		a.w.referee.violated(2, "a call of %s by %s stands at position %d", k.name, a.c.name, position)
	}
	a.w.mu.Unlock()
	if !k.troubled || !a.c.isUp() {
		return
	}
	a.own(func() {
		switch p := a.rand.IntN(100); {
		case p < 20:
			a.crash("callback", p < 10)
		case p < 45:
			a.c.fault("slow callback")
			a.c.spends(a.upTo(6 * time.Second))
		case p < 65:
			a.c.fault("callback calls back")
			a.c.callsBack(a.rand)
		case p < 66:
			a.c.closes("OnQueued")
		}
	})
}

// own runs code of the user's own in the goroutine of the actor, whose calls do not go on
// meanwhile.
func (a *actor) own(f func()) {
	began := time.Now()
	inside := func(now bool) {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		if a.inside = now; !now {
			a.back, a.kept = time.Now(), a.kept+time.Since(began)
		}
	}
	inside(true)
	defer inside(false)
	f()
}

// context returns ctx, or one of the user's own type that once takes its time as it is asked
// something, panics or ends the goroutine.
func (a *actor) context(ctx context.Context) context.Context {
	if !a.w.mischief() || !a.chance(6) {
		return ctx
	}
	how, d := a.rand.IntN(3), a.upTo(500*time.Millisecond)
	ctx = stage.Untimely(ctx, a.rand, func() {
		switch {
		case !a.c.isUp():
		case how == 0:
			a.own(func() {
				a.c.fault("slow context")
				a.c.spends(d)
			})
		default:
			a.crash("context", how == 1)
		}
	}, func(what string) {
		a.w.referee.objects(7, "the library asks a context of %s for its %s in another goroutine", a.c.name, what)
	})
	if a.w.plan.Break.Asks {
		go ctx.Done()
	}
	return ctx
}

// crash panics or ends the goroutine of the actor. The library may still have to give back what its
// calls had, of which nobody knows.
func (a *actor) crash(who string, panics bool) {
	a.w.mu.Lock()
	a.crashing = true
	a.w.mu.Unlock()
	stage.Crash(who, panics, a.c.fault)
}

// believes begins the belief in a Lease that a call returned.
func (a *actor) believes(k *call, lease *quorum.Lease, outer *belief) *belief {
	b := a.w.referee.believe(k, lease, outer)
	a.had = append(a.had, b)
	a.c.latest.Store(lease)
	return b
}

// survives runs the user's code in a goroutine that may panic or end, as far as the user's own code
// makes it. Then it does what deferred functions do.
func (a *actor) survives(f func()) {
	if !stage.Survives(f) {
		a.drops()
	}
}

// drops ends what the actor began, and unlocks what it has.
func (a *actor) drops() {
	a.w.mu.Lock()
	a.crashing, a.back = false, time.Now()
	for _, k := range a.open {
		if !k.done {
			a.over(k, "nothing: the user's code did not return")
		}
	}
	a.w.mu.Unlock()
	for _, b := range slices.Backward(a.had) {
		a.w.mu.Lock()
		over, left := b.k.returned || b.by.crashed, !b.left.IsZero()
		a.w.mu.Unlock()
		if over {
			continue
		}
		if !left {
			a.w.referee.unlocks(b)
		}
		if b.inDo || left { // it is given back by Do, or by the Unlock that did not return
			a.w.referee.finished(b)
		} else {
			a.survives(func() { a.w.referee.unlocked(b, b.lease.Unlock(context.Background())) })
		}
	}
}
