package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/simulate/stage"
)

// queued returns the OnQueued function of a call, which does what users' code does. It runs in the
// goroutine of the call.
func (a *actor) queued(k *call) func(position int) {
	return func(position int) {
		c := a.c
		if position < 1 {
			a.w.mu.Lock()
			a.w.referee.violated(2, "a call of %s by %s stands at position %d", k.name, c.name, position)
			a.w.mu.Unlock()
		}
		if !c.isUp() || !c.probe("OnQueued") {
			return
		}
		began := time.Now()
		a.inside(k, 1)
		defer func() {
			a.inside(k, -1)
			c.keeps(k, time.Since(began))
		}()
		calls, panics := a.w.plan.brings(Callbacks), a.w.plan.brings(Panics)
		switch p := a.rand.IntN(100); {
		case panics && p < 16:
			stage.Crash("callback", p < 8, func(kind string) { c.fault(kind, "of %s", k.name) })
		case calls && p < 40:
			c.fault("slow callback", "of %s", k.name)
			c.pass(a.upTo(6 * time.Second))
		case calls && p < 60:
			c.fault("callback calls back", "of %s", k.name)
			c.callsBack(a.rand)
		case calls && p < 61 && a.w.plan.brings(Closes):
			c.closes("OnQueued")
		}
	}
}

// inside notes that a call runs the user's own code. Meanwhile the call does not wait for the lock.
func (a *actor) inside(k *call, n int) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if k.inside += n; k.inside == 0 {
		k.back = time.Now()
	}
}

// mark gives a call a note of its own, by which its tickets can be recognised.
func (a *actor) mark(k *call) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.calls++
	a.serial++
	k.note = fmt.Sprintf("%d.%d", a.id, a.serial)
	a.c.notes(k)
	k.options = append(k.options, fairlock.Note(k.note))
}

// notes has a call found by its tickets. World.mu must be held.
func (c *client) notes(k *call) { c.noted[k.note+" "+k.name] = k }

// called is the call that has that ticket for a lock, or nil. World.mu must be held.
func (c *client) called(name, ticket string) *call { return c.noted[stage.NoteOf(ticket)+" "+name] }

// trouble adds to a call what the user's own code does.
func (a *actor) trouble(ctx context.Context, k *call) context.Context {
	if (a.w.plan.brings(Callbacks) || a.w.plan.brings(Panics)) && a.chance(15) {
		k.crashes = true
		k.options = append(k.options, fairlock.OnQueued(a.queued(k)))
	}
	if a.w.plan.brings(Values) && a.chance(5) {
		ctx = asking{ctx, k}
	}
	if a.w.plan.brings(Panics) && a.chance(5) {
		k.crashes = true
		panics := a.chance(50)
		ctx = stage.Untimely(ctx, a.rand, func() {
			if a.c.isUp() {
				stage.Crash("context", panics, func(kind string) { a.c.fault(kind, "of %s", k.name) })
			}
		}, func(what string) {
			a.w.mu.Lock()
			defer a.w.mu.Unlock()
			a.w.referee.violated(7, "the library asks a context of %s for its %s in another goroutine", a.c.name, what)
		})
		if a.w.plan.Break.Asks {
			go ctx.Done()
		}
	}
	return ctx
}

// calls makes a call under which the user's own code may panic or end its goroutine. A panic is
// recovered above the call.
func (a *actor) calls(k *call, f func()) {
	if k.crashes {
		a.survives(f)
	} else {
		f()
	}
}
