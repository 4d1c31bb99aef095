package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/simulate/stage"
)

// actor is one goroutine of a client that uses locks.
type actor struct {
	w    *World
	c    *client
	id   uint64
	rand *rand.Rand

	serial int // of its last call; guarded by World.mu

	failed bool      // its last call; for its own goroutine
	open   []*call   // of what it does now
	has    []*belief // from those calls
}

func (a *actor) run() {
	for a.idle(a.pause()) {
		if a.c.isClosing() {
			a.isTurnedAway()
			return
		}
		if a.w.isEnding() {
			return
		}
		a.open, a.has = nil, nil
		if a.w.plan.brings(HookCrashes) {
			a.survives(a.act)
		} else {
			a.act()
		}
	}
}

func (a *actor) upTo(d time.Duration) time.Duration { return stage.Span(a.rand, 1, d) }

func (a *actor) chance(percent int) bool { return a.rand.IntN(100) < percent }

// sleep waits for d and reports whether the client's code then still runs.
func (a *actor) sleep(d time.Duration) bool {
	stage.Pass(d, nil, a.c.gone)
	return a.runs()
}

// idle is sleep, but it also ends when the Locker begins to close.
func (a *actor) idle(d time.Duration) bool {
	stage.Pass(d, a.c.leaving, a.c.gone)
	return a.runs()
}

func (a *actor) runs() bool { return a.c.runs(a.id) }

// act does one thing that users do.
func (a *actor) act() {
	if name, _ := a.w.rush(); name != "" {
		a.lock(name)
		return
	}
	name := a.w.names[a.rand.IntN(len(a.w.names))]
	switch p := a.rand.IntN(1000); {
	case p < 60 && a.w.plan.brings(Damaged):
		a.usesDamaged()
	case p >= 650 && p < 700 && a.w.gathers():
		a.several()
	case p < 700:
		a.lock(name)
	case p < 800:
		a.try(name)
	case p < 940:
		a.do(name)
	case p < 990:
		a.lock(name, fairlock.WithOwner(fmt.Sprintf("saga-%d", a.rand.IntN(2))))
	case p < 996:
		a.evict(name)
	default:
		a.force(name)
	}
}

// lock takes a lock, uses it and unlocks it.
func (a *actor) lock(name string, options ...fairlock.LockOption) {
	k := &call{actor: a, op: "lock", name: name, waits: true}
	ctx, cancel := a.options(k, options)
	defer cancel()
	a.begins(k)
	a.calls(k, func() {
		lease, err := a.c.locker.Lock(ctx, name, k.options...)
		a.ended(k, err)
		a.failed = err != nil
		if err == nil {
			a.uses(name, lease, false)
		}
	})
}

func (a *actor) try(name string) {
	k := &call{actor: a, op: "trylock", name: name, held: true}
	a.begins(k)
	lease, err := a.c.locker.TryLock(context.Background(), name, k.options...)
	a.ended(k, err)
	if err == nil {
		a.uses(name, lease, false)
	}
}

var errOwn = errors.New("the function's own")

// do does the same inside Do, where the function may fail or panic.
func (a *actor) do(name string) {
	k := &call{actor: a, op: "do", name: name, waits: true}
	ctx, cancel := a.options(k, nil)
	defer cancel()
	overstays := a.w.plan.brings(Closes) && a.chance(10)
	if overstays {
		k.options = append(k.options, fairlock.LeaseFor(time.Second))
	}
	a.begins(k)
	a.calls(k, func() { a.does(ctx, k, overstays) })
}

func (a *actor) does(ctx context.Context, k *call, overstays bool) {
	var b *belief
	var own error
	panics, panicked := a.chance(15), false
	err := func() (err error) {
		defer func() {
			r := recover()
			if panicked = r != nil; panicked && r != any(errOwn) {
				panic(r)
			}
		}()
		return a.c.locker.Do(ctx, k.name, func(ctx context.Context, lease *fairlock.Lease) error {
			a.ended(k, nil)
			b = a.believes(k.name, lease, false)
			b.inDo = true
			returned := false
			defer func() {
				if !returned { // by a hook's panic: what ends now is the user's trust, too
					a.w.referee.unlocks(b)
				}
			}()
			a.w.referee.follow(ctx, b)
			if overstays {
				a.works(b, 1500*time.Millisecond, true)
			} else if a.runs() {
				a.use(ctx, b, k.name)
			}
			a.w.referee.unlocks(b)
			returned = true
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
	case panicked:
		a.w.referee.finished(b) // and Do's error is not known
	case !a.isGone():
		a.w.referee.did(b, own, err)
	}
}

// believes begins the belief in a Lease that a call returned.
func (a *actor) believes(name string, lease *fairlock.Lease, nested bool) *belief {
	b := a.w.referee.believe(a.c, name, lease, nested)
	a.has = append(a.has, b)
	return b
}

// uses uses and unlocks a lease that a call returned.
func (a *actor) uses(name string, lease *fairlock.Lease, nested bool) {
	b := a.believes(name, lease, nested)
	if !a.runs() {
		return
	}
	a.use(lease.Context(), b, name)
	if a.isGone() {
		return
	}
	a.w.referee.unlocks(b)
	began := time.Now()
	err := a.unlock(b)
	a.w.referee.unlocked(b, err)
	_ = a.looks(b)
	a.w.referee.returned(a.c, "unlock", began, 5*time.Second)
	if a.runs() && a.chance(10) {
		a.again(lease, err)
	}
}

// unlock unlocks a lease, sometimes in two goroutines at once. One of them must learn how it went,
// and the other that it held nothing.
func (a *actor) unlock(b *belief) error {
	if !a.w.plan.brings(Twice) || !a.chance(5) {
		return b.lease.Unlock(context.Background())
	}
	second := make(chan error, 1)
	go func() { second <- b.lease.Unlock(context.Background()) }()
	one := b.lease.Unlock(context.Background())
	two := <-second
	if one == nil && two == nil {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		a.w.referee.violated(6, "%s: %s unlocked token %d twice at once, and both were clean", b.lk.name, a.c.name, b.token)
	}
	if errors.Is(one, fairlock.ErrNotHeld) && !errors.Is(one, fairlock.ErrLost) {
		return two
	}
	return one
}

// again unlocks a lease that was unlocked before. The result must be ErrNotHeld, or ErrLost if the
// lease was lost, or the outcome for which the first Unlock did not wait.
func (a *actor) again(lease *fairlock.Lease, first error) {
	err := lease.Unlock(context.Background())
	if errors.Is(first, context.DeadlineExceeded) || errors.Is(err, fairlock.ErrNotHeld) || errors.Is(err, fairlock.ErrLost) {
		return
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.referee.violated(6, "%s unlocked twice and was told: %v, and then: %v", a.c.name, first, err)
}

// use works under the lock: it writes, nests, extends, or stays longer than it may.
func (a *actor) use(ctx context.Context, b *belief, name string) {
	rushed, in := a.w.rush()
	if rushed == name {
		a.works(b, a.upTo(time.Millisecond), false)
		return
	}
	d := min(a.upTo(2*time.Second), in+1)
	switch p := a.rand.IntN(100); {
	case p < 15:
		d = a.upTo(20 * time.Millisecond)
	case p < 20:
		d = a.upTo(min(2*a.c.lease, time.Minute))
	}
	stubborn := a.chance(30)
	if !a.works(b, d/2, stubborn) {
		return
	}
	switch p := a.rand.IntN(100); {
	case p < 12:
		a.nest(ctx, b, name)
	case p < 18:
		err := b.lease.Extend(ctx, a.upTo(10*time.Second)+100*time.Millisecond)
		a.w.history.Note(a.c.name, "extends %s: %v", name, err)
	}
	if a.runs() && a.works(b, d/2, stubborn) && a.looks(b) == nil {
		a.w.mu.Lock()
		a.w.referee.writes(b)
		a.w.mu.Unlock()
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
			return a.runs()
		case <-lost:
			if !stubborn {
				// A Close that ended the Lease goes on in this instant: whether it waits for the
				// Unlock that this leads to would be chance.
				time.Sleep(time.Microsecond)
				return a.runs() && false
			}
			lost = nil // a stubborn user does not look
		case <-a.c.gone:
			return false
		}
	}
}

// nest takes the lock again.
func (a *actor) nest(ctx context.Context, b *belief, name string) {
	k := &call{actor: a, op: "nested lock", name: name, within: true}
	a.mark(k)
	if a.chance(20) {
		k.options = append(k.options, fairlock.LeaseFor(a.upTo(8*time.Second)+100*time.Millisecond))
	}
	if single(b.owner) {
		// Without a limit, a call whose lock was lost in between would be one of many waiters.
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		k.until = time.Now().Add(3 * time.Second)
		a.begins(k)
		if a.w.plan.Break.Nested {
			cancel()
		}
		lease, err := a.c.locker.Lock(short, name, k.options...)
		a.ended(k, err)
		if err != nil {
			a.w.referee.shutOut(ctx, b, err)
			return
		}
		inner := a.believes(name, lease, lease.Token() == b.token)
		if a.sleep(a.upTo(300 * time.Millisecond)) {
			a.w.referee.unlocks(inner)
			a.w.referee.unlocked(inner, lease.Unlock(short))
		}
	}
}

// looks asks a Lease for its error, and judges that its Done says the same (1).
func (a *actor) looks(b *belief) error {
	err := b.lease.Err()
	ended := func() bool { return b.lease.Context().Err() != nil }
	was := ended()
	if err != nil && !was {
		// Another goroutine may have found out at this instant, and be about to end the contexts.
		time.Sleep(time.Microsecond)
		was = ended()
	}
	if was != (err != nil) && was != (b.lease.Err() != nil) {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		a.w.referee.violated(1, "%s: the Lease of %s with token %d says %v, its Done is closed: %v", b.lk.name, a.c.name, b.token, err, was)
	}
	return err
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
	locker, ok := a.c.locker.(*fairlock.Locker)
	if !ok || a.w.isFair() {
		return
	}
	state, err := locker.Inspect(context.Background(), name)
	if err != nil || len(state.Waiters) == 0 || !a.runs() {
		return
	}
	victim := state.Waiters[a.rand.IntN(len(state.Waiters))]
	a.w.mu.Lock()
	a.w.fault("evict", "%s of %s", victim.ID, name)
	a.w.mu.Unlock()
	err = locker.Evict(context.Background(), name, victim.ID)
	a.w.history.Note(a.c.name, "evicted %s from %s: %v", victim.ID, name, err)
}

func (a *actor) isGone() bool {
	select {
	case <-a.c.gone:
		return true
	default:
		return false
	}
}
