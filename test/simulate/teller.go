package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// told is what a client's Observer and its logger do when they are told something: nearly always
// nothing that takes time. Of two things that happen in one instant either may be told first, so
// what they do depends on the instant alone.
func (c *client) told(what string) {
	w := c.w
	r := w.draw(c.id, 21)
	p := r.IntN(1000)
	slow, crash := w.plan.brings(Tellers), w.plan.brings(Crashes)
	if p >= 60 || !slow && !crash || !c.isUp() || !c.probe(what) {
		return
	}
	time.Sleep(stage.Span(r, 1, 30*time.Microsecond)) // what happens at one instant has no order
	switch {
	case !c.isUp():
	case slow && p < 12:
		c.fault("slow teller", "told something")
		c.pass(stage.Span(r, time.Second, 8*time.Second))
	case slow && p < 35:
		c.fault("teller calls back", "told something")
		c.callsBack(r)
	case slow && p < 36 && w.plan.brings(Closes):
		c.closes("a teller")
	case crash && p >= 40:
		stage.Crash("teller", p < 50, func(kind string) { c.fault(kind, "told something") })
	}
}

// isUp reports whether the client's code may begin something.
func (c *client) isUp() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return !c.crashed && !c.closing && !c.w.ending
}

// fault counts a fault that the client's own code makes.
func (c *client) fault(kind, format string, args ...any) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.fault(kind, "%s: %s", c.name, fmt.Sprintf(format, args...))
}

// callsBack is user code that calls the Locker from which it was called.
func (c *client) callsBack(r *rand.Rand) {
	name := c.w.names[r.IntN(len(c.w.names))]
	ctx, cancel := context.WithTimeout(context.Background(), stage.Span(r, 100*time.Millisecond, 2*time.Second))
	defer cancel()
	switch r.IntN(3) {
	case 0:
		_, err := c.locker.Inspect(ctx, name)
		c.w.history.Note(c.name, "inspected %s: %v", name, err != nil)
	case 1:
		if lease := c.latest.Load(); lease != nil {
			_, _, _ = lease.Err(), lease.Depth(), lease.Deadline()
		}
	default:
		a := &actor{w: c.w, c: c, id: 1000 + r.Uint64N(1e9), rand: r}
		a.briefly(ctx, name)
	}
}

// briefly takes a lock that is free, or becomes free before ctx ends, and gives it back.
func (a *actor) briefly(ctx context.Context, name string) {
	k := &call{actor: a, op: "trylock", name: name, held: true, ends: true}
	take := a.c.locker.TryLock
	if a.chance(30) {
		k.op, take = "lock", a.c.locker.Lock
	}
	a.begins(k)
	lease, err := take(ctx, name, k.options...)
	a.ended(k, err)
	if err != nil {
		return
	}
	b := a.w.referee.believe(a.c, name, lease, false)
	if a.sleep(a.upTo(100 * time.Millisecond)) {
		a.w.referee.unlocks(b)
		a.w.referee.unlocked(b, lease.Unlock(context.Background()))
	}
}

// asking is a context of the user's own type. Asked for a value, it asks a Lease, and sometimes
// waits.
type asking struct {
	context.Context
	k *call
}

// Value runs in the goroutine of whatever code has the context.
func (v asking) Value(key any) any {
	c := v.k.actor.c
	if c.isUp() && c.probe("a context's Value") {
		if lease := c.latest.Load(); lease != nil {
			_ = lease.Err()
		}
		if r := c.w.draw(c.id, stage.Contents([]string{v.k.note}), 22); r.IntN(20) == 0 {
			d := stage.Span(r, time.Millisecond, 500*time.Millisecond)
			c.fault("slow context", "%v", d)
			c.keeps(v.k, d)
			v.k.actor.inside(v.k, 1)
			c.pass(d)
			v.k.actor.inside(v.k, -1)
		}
	}
	return v.Context.Value(key)
}

// keeps notes that a call may return later by d, because the user's own code keeps it.
func (c *client) keeps(k *call, d time.Duration) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	k.kept += d
}
