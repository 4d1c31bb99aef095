package majority

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// mischief reports whether users' code does what it should not.
func (w *World) mischief() bool { return !w.plan.Calm && !w.plan.Rewinds && !w.plan.Misled }

// told is what a client's Observer and its logger do when they are told something: nearly always
// nothing. Of two things that happen in one instant either may be told first, so what they do
// depends on the instant alone.
func (c *client) told(string) {
	r := c.w.draw(c.id, 21)
	p := r.IntN(1000)
	if p >= 17 || !c.w.mischief() || !c.isUp() {
		return
	}
	time.Sleep(stage.Span(r, 1, 30*time.Microsecond)) // what happens at one instant has no order
	switch {
	case !c.isUp():
	case p < 3:
		c.fault("slow teller")
		c.spends(stage.Span(r, time.Second, 8*time.Second))
	case p < 9:
		c.fault("teller calls back")
		c.callsBack(r)
	case p < 10:
		c.closes("a teller")
	default:
		stage.Crash("teller", p < 13, c.fault)
	}
}

// isUp reports whether the client's code may begin something.
func (c *client) isUp() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return !c.crashed && !c.closing && !c.w.ending
}

// fault counts a fault that the client's own code makes.
func (c *client) fault(kind string) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.fault(kind, "of %s", c.name)
}

// spends lets the client's code spend time, as long as its process lives.
func (c *client) spends(d time.Duration) {
	stage.Pass(d, nil, c.gone)
	c.runs(uint64(d)) //nolint:gosec // it is not negative
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
			_, _, _, _ = lease.Err(), lease.Depth(), lease.Deadline(), lease.Context().Err()
			_ = lease.Extend(ctx, stage.Span(r, 100*time.Millisecond, 3*time.Second))
		}
	default:
		a := &actor{w: c.w, c: c, id: 1000 + r.Uint64N(1e9), rand: r}
		a.briefly(ctx, name)
	}
}

// briefly takes a lock that is free, or becomes free before ctx ends, and gives it back.
func (a *actor) briefly(ctx context.Context, name string) {
	k := &call{op: "trylock", name: name, held: true, ends: true}
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
	b := a.believes(k, lease, nil)
	if a.sleep(a.upTo(100*time.Millisecond), nil) {
		a.unlock(b)
	}
}
