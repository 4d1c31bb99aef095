package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// gathers reports whether calls are for several locks in this run. Chance numbers the tickets of
// such a call, so its seed is not the same run each time.
func (w *World) gathers() bool { return w.plan.brings(Several) && w.plan.Seed%3 == 1 }

// several takes two or three locks at once, works under all of them and unlocks them. To the
// referee that is one call for each of the locks: their tickets have one note.
func (a *actor) several() {
	names := a.someNames()
	ctx, cancel, options, of := a.asksFor(names)
	defer cancel()
	for _, k := range of {
		a.begins(k)
	}
	leases, err := a.c.locker.LockAll(ctx, names, options...)
	a.sharesEvictions(of)
	for _, k := range of {
		a.ended(k, err)
	}
	if err == nil {
		a.usesAll(of, leases)
	}
}

// sharesEvictions notes that who was evicted from one line gets no lock of the others either.
func (a *actor) sharesEvictions(of []*call) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	for _, k := range of {
		for _, other := range of {
			if !k.evicted.IsZero() {
				other.evicted = first(other.evicted, k.evicted)
			}
		}
	}
}

// someNames draws two or three locks, in any order.
func (a *actor) someNames() (names []string) {
	for _, i := range a.rand.Perm(len(a.w.names))[:min(len(a.w.names), 2+a.rand.IntN(2))] {
		names = append(names, a.w.names[i])
	}
	return names
}

// asksFor draws what a call for several locks asks for.
func (a *actor) asksFor(names []string) (ctx context.Context, cancel context.CancelFunc, options []fairlock.LockOption, of []*call) {
	like := call{actor: a, op: "lockall", kept: 1} // others may keep it, while it has some of its locks
	ctx, cancel = context.Background(), func() {}
	now := time.Now()
	switch p := a.rand.IntN(100); {
	case p < 20:
		d := a.upTo(8 * time.Second)
		options, like.held, like.until = append(options, fairlock.WaitAtMost(d)), true, now.Add(d)
	case p < 40:
		d := a.upTo(10 * time.Second)
		ctx, cancel = context.WithTimeout(ctx, d)
		like.ends, like.until = true, now.Add(d)
	}
	if a.chance(10) {
		options, like.full = append(options, fairlock.MaxWaiters(1+a.rand.IntN(5))), true
	}
	if a.chance(15) {
		options = append(options, fairlock.LeaseFor(a.fixed()))
	}
	first := like
	first.name = names[0]
	a.mark(&first)
	options = append(options, first.options...)
	of = append(of, &first)
	for _, name := range names[1:] {
		k := like
		k.name, k.note = name, first.note
		a.w.mu.Lock()
		a.c.notes(&k)
		a.w.mu.Unlock()
		of = append(of, &k)
	}
	return ctx, cancel, options, of
}

// usesAll works under all locks, and unlocks them: at once, or one by one.
func (a *actor) usesAll(of []*call, leases *fairlock.Leases) {
	var all []*belief
	for _, k := range of {
		lease := leases.Lease(k.name)
		if lease == nil {
			a.w.mu.Lock()
			a.w.referee.violated(6, "%s has no Lease of %s from a call for it", a.c.name, k.name)
			a.w.mu.Unlock()
			continue
		}
		all = append(all, a.believes(k.name, lease, false))
	}
	for _, b := range all {
		if a.works(b, a.upTo(300*time.Millisecond), a.chance(30)) && a.looks(b) == nil {
			a.w.mu.Lock()
			a.w.referee.writes(b)
			a.w.mu.Unlock()
		}
		if a.isGone() {
			return
		}
	}
	a.endsTogether(leases)
	began := time.Now()
	if a.chance(30) {
		for _, b := range all {
			a.w.referee.unlocks(b)
			a.w.referee.unlocked(b, b.lease.Unlock(context.Background()))
		}
		return
	}
	late := false
	for _, b := range all {
		a.w.referee.unlocks(b)
		late = late || b.late
	}
	err := leases.Unlock(context.Background())
	a.w.referee.returned(a.c, "unlock of several", began, 5*time.Second)
	a.unlockedAll(all, late, err)
}

// endsTogether judges that the Done of all says what their Err does (1).
func (a *actor) endsTogether(leases *fairlock.Leases) {
	ended := func() bool { return leases.Context().Err() != nil }
	was, err := ended(), leases.Err()
	if was != (err != nil) {
		time.Sleep(time.Microsecond) // another goroutine may be about to end the contexts
		was, err = ended(), leases.Err()
	}
	if was != (err != nil) {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		a.w.referee.violated(1, "the Leases of %s say %v, and their Done is closed: %v", a.c.name, err, was)
	}
}

// unlockedAll judges what the Unlock of several said (6).
func (a *actor) unlockedAll(all []*belief, late bool, err error) {
	r := a.w.referee
	if err == nil {
		for _, b := range all {
			r.unlocked(b, nil)
		}
		return
	}
	for _, b := range all {
		r.finished(b)
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.history.Note(a.c.name, "unlocked several: %v", err)
	switch {
	case !late && r.calm():
		r.violated(6, "%s held several locks in calm weather and was told: %v", a.c.name, err)
	case late && !errors.Is(err, fairlock.ErrLost) && !errors.Is(err, fairlock.ErrNotHeld):
		r.violated(6, "the trust of %s in one of several locks had ended, and it was told: %v", a.c.name, err)
	}
}
