package conformance

import (
	"context"
	"time"

	"github.com/fairlock/locks/fairlock"
)

var nestingTests = []test{
	{"a nested call re-enters by context, shares the token, and the last Unlock releases, in any order", func(w *World) {
		a, b := w.Locker(), w.Locker()
		outer := w.Lock(a, "x")
		middle := w.LockIn(outer.Context(), a, "x")
		inner, err := a.TryLock(middle.Context(), "x")
		w.NoError(err)
		w.That(inner.Depth() == 3 && inner.Token() == outer.Token() && inner.Owner() == outer.Owner(), "depth %d", inner.Depth())
		w.Unlock(outer)
		w.That(outer.Err() != nil && inner.Err() == nil && inner.Depth() == 2, "the hold ended too early")
		w.Unlock(inner)
		_, err = b.TryLock(w.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(middle)
		w.Unlock(w.Lock(b, "x"))
	}},
	{"the record shows the depth within a second", func(w *World) {
		a := w.Locker()
		outer := w.Lock(a, "x")
		inner := w.LockIn(outer.Context(), a, "x")
		depth := func() int {
			s, err := a.Inspect(w.Context(), "x")
			w.NoError(err)
			return s.Holder.Depth
		}
		changed := time.Now()
		w.Until("depth 2", func() bool { return depth() == 2 })
		took := time.Since(changed)
		w.That(took < time.Second || !w.Fake && took < 3*time.Second, "after %v", took) // the machine may be busy
		w.Unlock(inner)
		w.Until("depth 1", func() bool { return depth() == 1 })
		w.Unlock(outer)
	}},
	{"children of one parent share its lock and exclude each other from another", func(w *World) {
		a := w.Locker()
		parent := w.Lock(a, "x")
		w.Unlock(w.LockIn(parent.Context(), a, "x"))
		first := w.LockIn(parent.Context(), a, "y")
		second := w.Queue(parent.Context(), a, "y", 1)
		w.Unlock(first)
		w.Unlock(w.Take(second))
		w.Unlock(parent)
	}},
	{"another Locker's context is a stranger's", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		_, err := b.TryLock(lease.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(lease)
	}},
	{"the context of a hold that has ended does not re-enter", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		w.Unlock(lease)
		other := w.Lock(b, "x")
		_, err := a.TryLock(context.WithoutCancel(lease.Context()), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(other)
	}},
	{"inside Do the same goroutine re-enters whatever its context, and no other does", func(w *World) {
		a := w.Locker()
		w.NoError(a.Do(w.Context(), "x", func(ctx context.Context, l *fairlock.Lease) error {
			inner, err := a.TryLock(context.Background(), "x")
			w.NoError(err)
			w.That(inner.Token() == l.Token() && l.Depth() == 2, "not the same hold")
			w.Unlock(inner)
			done := make(chan error)
			go func() {
				_, err := a.TryLock(context.Background(), "x")
				done <- err
			}()
			w.Is(<-done, fairlock.ErrHeld)
			return a.Do(ctx, "x", func(_ context.Context, l *fairlock.Lease) error {
				w.That(l.Depth() == 2, "depth %d", l.Depth())
				return nil
			})
		}))
		after := w.LockIn(context.Background(), a, "x")
		_, err := a.TryLock(context.Background(), "x")
		w.Is(err, fairlock.ErrHeld) // the binding ended with Do
		w.Unlock(after)
	}},
	{"a Lease of Lock is not bound to its goroutine unless identity is by goroutine, and then until Detach", func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		_, err := a.TryLock(context.Background(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(lease)

		b := w.Locker(fairlock.WithIdentity(fairlock.ByGoroutine))
		lease = w.Lock(b, "x")
		inner, err := b.TryLock(context.Background(), "x")
		w.NoError(err)
		w.Unlock(inner)
		lease.Detach()
		_, err = b.TryLock(context.Background(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(lease)
	}},
	{"a named owner re-enters wherever it is, and whoever names another is a stranger whatever its context", func(w *World) {
		a, b := w.Locker(), w.Locker()
		first := w.Lock(a, "x", fairlock.WithOwner("saga-7"))
		same := w.Lock(a, "x", fairlock.WithOwner("saga-7"))
		elsewhere := w.Lock(b, "x", fairlock.WithOwner("saga-7"))
		w.That(same.Token() == first.Token() && elsewhere.Token() == first.Token() && first.Owner() == "saga-7", "tokens differ")
		_, err := a.TryLock(first.Context(), "x", fairlock.WithOwner("saga-8"))
		w.Is(err, fairlock.ErrHeld)
		unnamed, err := a.TryLock(first.Context(), "x")
		w.NoError(err)
		w.Unlock(unnamed)
		w.Unlock(first)
		w.Unlock(same)
		_, err = a.TryLock(w.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(elsewhere)
		w.Unlock(w.Lock(a, "x"))
	}},
	{"each of two holds that one owner has in one process is re-entered until it ends itself", func(w *World) {
		a, b := w.Locker(), w.Locker()
		for ends := range 2 {
			held := w.Lock(b, "x")
			var both []<-chan Outcome
			for i := range 2 {
				both = append(both, w.Queue(w.Context(), a, "x", i+1, fairlock.WithOwner("saga-7")))
			}
			w.Unlock(held)
			leases := []*fairlock.Lease{w.Take(both[0]), w.Take(both[1])}
			w.That(leases[0].Token() == leases[1].Token(), "tokens %d and %d", leases[0].Token(), leases[1].Token())
			w.Unlock(leases[ends])
			stays := leases[1-ends]
			for _, nested := range []func() (*fairlock.Lease, error){
				func() (*fairlock.Lease, error) { return a.TryLock(stays.Context(), "x") },
				func() (*fairlock.Lease, error) { return a.TryLock(w.Context(), "x", fairlock.WithOwner("saga-7")) },
			} {
				inner, err := nested()
				w.NoError(err)
				w.That(stays.Depth() == 2, "depth %d", stays.Depth())
				w.Unlock(inner)
			}
			w.NoError(stays.Err())
			w.Unlock(stays)
		}
	}},
	{"calls of one owner that wait in one process have the lock together", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(b, "x")
		var calls []<-chan Outcome
		for i := range 3 {
			calls = append(calls, w.Queue(w.Context(), a, "x", i+1, fairlock.WithOwner("saga-7")))
		}
		began := time.Now()
		w.Unlock(held)
		for _, call := range calls {
			lease := w.Take(call)
			defer func() { w.Unlock(lease) }()
		}
		w.That(time.Since(began) < w.answered(time.Second), "the last has it after %v", time.Since(began))
	}},
	{"a nested call that asks for a longer lease gets it, and nothing is ever shortened", func(w *World) {
		a := w.Locker()
		outer := w.Lock(a, "x", fairlock.LeaseFor(w.Lease))
		inner := w.LockIn(outer.Context(), a, "x", fairlock.LeaseFor(10*w.Lease))
		w.That(time.Until(outer.Deadline()) > 8*w.Lease, "trusted for %v", time.Until(outer.Deadline()))
		w.Unlock(inner)
		short := w.LockIn(outer.Context(), a, "x", fairlock.LeaseFor(100*time.Millisecond))
		w.Unlock(short)
		w.That(time.Until(outer.Deadline()) > 8*w.Lease, "shortened to %v", time.Until(outer.Deadline()))
		w.Unlock(outer)
	}},
	{"a nested call brings a watchdog where there was none", func(w *World) {
		a := w.Locker()
		outer := w.Lock(a, "x", fairlock.LeaseFor(w.Lease))
		inner := w.LockIn(outer.Context(), a, "x")
		w.renewed(outer, w.Lease*2/3) // a word on the depth prolongs it too, by little
		w.NoError(inner.Err())
		w.Unlock(inner)
		w.Unlock(outer)
	}},
}
