package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/locks/fairlock"
)

func counting(w *World) {
	looks, a, byGoroutine := w.Locker(), w.Locker(), w.Locker(fairlock.WithIdentity(fairlock.ByGoroutine))
	ways := map[string]func(context.Context) (*fairlock.Lease, error){ // the keys are also the names of the locks
		"by context": func(ctx context.Context) (*fairlock.Lease, error) { return a.Lock(ctx, "by context") },
		"by goroutine": func(context.Context) (*fairlock.Lease, error) {
			return byGoroutine.TryLock(w.Context(), "by goroutine")
		},
		"by owner": func(context.Context) (*fairlock.Lease, error) {
			return a.Lock(w.Context(), "by owner", fairlock.WithOwner("saga-7"))
		},
	}
	names := slices.Collect(maps.Keys(ways))
	leases := make(map[string][]*fairlock.Lease)
	counts := func(n int) {
		w.Helper()
		for name := range ways {
			for _, l := range leases[name] {
				w.That(l.Depth() == n, "%s: depth %d, want %d", name, l.Depth(), n)
			}
		}
	}
	enter := func() {
		w.Helper()
		for name, lock := range ways {
			ctx := w.Context()
			if outer := leases[name]; len(outer) > 0 {
				ctx = outer[0].Context()
			}
			l, err := lock(ctx)
			w.NoError(err)
			leases[name] = append(leases[name], l)
		}
	}
	shown := func(n int) {
		w.Helper()
		for name := range ways {
			w.That(w.depth(looks, name) == n, "%s: depth %d is shown, want %d", name, w.depth(looks, name), n)
		}
	}
	shown(0)
	enter()
	counts(1)
	shown(1)
	enter()
	counts(2)
	w.shows(looks, 2, names...)
	for name := range ways {
		w.Unlock(leases[name][1])
	}
	counts(1)
	w.shows(looks, 1, names...)
	for name := range ways {
		w.Unlock(leases[name][0])
	}
	counts(0)
	shown(0)
}

func partialUnlock(w *World) {
	looks := w.Locker()
	fixed := 20 * w.Lease
	nested := make(map[string][]*fairlock.Lease)
	for name, own := range map[string]time.Duration{"shorter": w.Lease, "longer": 10 * fixed} {
		a := w.Locker(fairlock.WithLease(own))
		outer := w.Lock(a, name, fairlock.LeaseFor(fixed))
		nested[name] = []*fairlock.Lease{outer}
		for range 2 {
			nested[name] = append(nested[name], w.LockIn(outer.Context(), a, name, fairlock.LeaseFor(fixed)))
		}
	}
	w.shows(looks, 3, "shorter", "longer")
	ends, trusted := make(map[string]time.Duration), make(map[string]time.Time)
	for name, leases := range nested {
		ends[name], trusted[name] = w.expiry(name), leases[0].Deadline()
		w.Unlock(leases[2])
		w.Unlock(leases[1])
	}
	w.shows(looks, 1, "shorter", "longer")
	for name, leases := range nested {
		w.That(w.expiry(name) == ends[name], "%s: it ends %v later than before", name, w.expiry(name)-ends[name])
		w.That(!leases[0].Deadline().Before(trusted[name]), "%s: trust ends earlier", name)
		w.Unlock(leases[0])
	}
}

func pooledGoroutine(w *World) {
	l, other := w.Locker(fairlock.WithIdentity(fairlock.ByGoroutine)), w.Locker()
	jobs := make(chan func())
	defer close(jobs)
	go func() {
		for job := range jobs {
			job()
		}
	}()
	result := make(chan Outcome, 1)
	try := func() Outcome {
		jobs <- func() {
			lease, err := l.TryLock(context.Background(), "x")
			result <- Outcome{Lease: lease, Err: err}
		}
		return <-result
	}
	refused := func() {
		w.Helper()
		w.Is(try().Err, fairlock.ErrHeld)
	}
	had := func(token int64) *fairlock.Lease {
		w.Helper()
		o := try()
		w.NoError(o.Err)
		w.That(token == 0 || o.Lease.Token() == token, "token %d, want %d", o.Lease.Token(), token)
		return o.Lease
	}

	first := had(0)
	second := had(first.Token()) // Detach is for such calls
	second.Detach()
	third := had(first.Token()) // each Lease is detached by itself
	third.Detach()
	first.Detach()
	refused()

	queued := make(chan struct{}, 1)
	jobs <- func() { // the next job must wait for the first job's lock
		lease, err := l.Lock(context.Background(), "x", fairlock.OnQueued(func(int) { queued <- struct{}{} }))
		result <- Outcome{Lease: lease, Err: err}
	}
	select {
	case <-queued:
	case o := <-result:
		w.Fatalf("it did not wait: %+v", o)
	}
	for _, lease := range []*fairlock.Lease{third, first, second} {
		w.That(len(result) == 0, "two have the lock")
		w.Unlock(lease)
	}
	next := w.Take(result)
	w.That(next.Token() > first.Token(), "token %d after %d", next.Token(), first.Token())

	w.Unlock(next) // here, and not in the goroutine to which the lease is bound
	held := w.Lock(other, "x")
	refused()
	w.Unlock(held)
	mine := w.Lock(l, "x")
	refused()
	w.Unlock(mine)
}

// depth returns the depth that Inspect shows, 0 for a free lock.
func (w *World) depth(l Locker, name string) int {
	w.Helper()
	s, err := l.Inspect(w.Context(), name)
	w.NoError(err)
	if s.Holder == nil {
		return 0
	}
	return s.Holder.Depth
}

// shows returns when Inspect shows this depth for all these locks.
func (w *World) shows(l Locker, depth int, names ...string) {
	w.Helper()
	if w.Fake {
		w.Pass(500 * time.Millisecond) // in fake time, polling would ask far too often
	}
	w.Until(fmt.Sprintf("depth %d is shown of %q", depth, names), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return w.depth(l, name) != depth })
	})
}
