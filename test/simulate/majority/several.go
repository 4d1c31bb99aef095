package majority

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/quorum"
)

// gathers reports whether calls are for several locks in this run. Chance numbers the tickets of
// such a call, so its seed is not the same run each time.
func (w *World) gathers() bool { return w.plan.Seed%3 == 1 }

// several takes all locks at once, works under them and unlocks them. To the referee that is one
// call for each of the locks: their tickets have one note.
func (a *actor) several() {
	first := &call{op: "lockall", name: a.w.names[0]}
	ctx, cancel := a.asks(first)
	defer cancel()
	a.marks(first)
	of := []*call{first}
	for _, name := range a.w.names[1:] {
		k := *first
		k.name, k.options = name, nil
		of = append(of, &k)
	}
	for _, k := range of { // only then, for the referee looks from one to the others
		k.with = of
	}
	for _, k := range of {
		a.knows(k)
	}
	names := make([]string, len(a.w.names))
	for i, at := range a.rand.Perm(len(names)) {
		names[i] = a.w.names[at]
	}
	leases, err := a.c.locker.LockAll(ctx, names, first.options...)
	for _, k := range of {
		a.ended(k, err)
	}
	if err == nil {
		a.hasAll(of, leases)
	}
}

// hasAll works under several locks, and unlocks them: at once, or one by one.
func (a *actor) hasAll(of []*call, leases *quorum.Leases) {
	var all []*belief
	for _, k := range of {
		all = append(all, a.believes(k, leases.Lease(k.name), nil))
	}
	for _, b := range all {
		if a.works(b, a.upTo(300*time.Millisecond), a.chance(30)) && b.lease.Err() == nil {
			a.w.referee.uses(b)
		}
		if !a.c.runs(a.id) || a.isGone() {
			return
		}
	}
	if a.chance(30) {
		for _, b := range all {
			a.unlock(b)
		}
		return
	}
	for _, b := range all {
		a.w.referee.unlocks(b)
	}
	began, kept := time.Now(), a.kept
	err := leases.Unlock(a.context(context.Background()))
	a.w.referee.unlockedAll(all, err)
	a.w.referee.unlocksIn(a.c, all[0], began, a.kept-kept)
}

// unlockedAll judges what the Unlock of several said (6).
func (r *referee) unlockedAll(all []*belief, err error) {
	if err == nil {
		for _, b := range all {
			r.unlocked(b, nil)
		}
		return
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	by := all[0]
	late := false
	for _, b := range all {
		late = late || b.late
		r.finishes(b)
	}
	r.w.history.Note(by.by.name, "unlocked several: %v", err)
	switch {
	case by.k.actor.kept > by.kept && errors.Is(err, quorum.ErrLost): // a lease ended while the user's own code kept the Unlock
	case !late && r.calm() && !r.closes(by, err):
		r.violated(6, "%s held several locks in calm weather and was told: %v", by.by.name, err)
	case late && !errors.Is(err, quorum.ErrLost) && !errors.Is(err, quorum.ErrNotHeld):
		r.violated(6, "the trust of %s in one of several locks had ended, and it was told: %v", by.by.name, err)
	}
}
