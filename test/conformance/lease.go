package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/fairlock"
)

var leaseTests = []test{
	{"a lock is renewed for as long as it is held, and keeps its token", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		for range w.rounds(10, 3) {
			w.Pass(w.Lease / 2)
			w.NoError(lease.Err())
			_, err := b.TryLock(w.Context(), "x")
			w.Is(err, fairlock.ErrHeld)
		}
		w.Unlock(lease)
	}},
	{"a lock that was granted by message becomes a full lease and is renewed", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		next := w.Queue(w.Context(), b, "x", 1)
		w.Unlock(lease)
		got := w.Take(next)
		w.Pass(time.Duration(w.rounds(3, 1)) * w.Lease)
		w.NoError(got.Err())
		w.Unlock(got)
	}},
	{"a lock that was granted by message and then extended by little is renewed before that ends", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		next := w.Queue(w.Context(), b, "x", 1)
		w.Unlock(lease)
		got := w.Take(next)
		w.NoError(got.Extend(w.Context(), time.Until(got.Deadline())+w.Lease/15))
		w.renewed(got, 0)
		w.Unlock(got)
	}},
	{"renewals end with the Unlock", func(w *World) {
		a := w.Locker()
		w.Unlock(w.Lock(a, "x"))
		w.Pass(w.Lease / 2 * time.Duration(w.rounds(4, 1))) // the first would come after a third
		w.That(w.admin.Exists(w.Context(), w.Record("x")).Val() == 0, "somebody renewed it")
	}},
	{"a fixed lease is not renewed, says so when it ends, and before anybody else has the lock", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x", fairlock.LeaseFor(w.Lease))
		next := w.Queue(w.Context(), b, "x", 1)
		<-lease.Done()
		w.That(!w.Fake || len(next) == 0, "two trust the lock")
		w.Is(lease.Err(), fairlock.ErrLost)
		w.That(context.Cause(lease.Context()) == fairlock.ErrLost, "cause %v", context.Cause(lease.Context())) //nolint:errorlint // the promise is the very value
		got := w.Wait(next)
		w.NoError(got.Err)
		w.That(got.At.After(lease.Deadline()), "two trust the lock")
		w.Is(lease.Unlock(w.Context()), fairlock.ErrLost)
		w.Is(lease.Unlock(w.Context()), fairlock.ErrLost)
		w.NoError(got.Lease.Err())
		w.Unlock(got.Lease)
	}},
	{"a fixed lease granted by message lasts as long as it was asked for", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		long := 4 * time.Second // longer than a claim
		next := w.Queue(w.Context(), b, "x", 1, fairlock.LeaseFor(long))
		before := time.Now()
		w.Unlock(lease)
		got := w.Take(next)
		ends := got.Deadline()
		left, trusted := time.Until(ends), ends.Sub(before) // a busy machine may be late to look
		w.That(trusted > long-long/4 && left < long, "trusted for %v of %v, %v are left", trusted, long, left)
		w.Unlock(got)
	}},
	{"a holder whose record vanished learns it with the next renewal", func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		w.admin.Del(w.Context(), w.Record("x"))
		<-lease.Done()
		w.Is(lease.Err(), fairlock.ErrLost)
		w.Is(lease.Unlock(w.Context()), fairlock.ErrLost)
	}},
	{"the next in line gets the lock when its holder is gone, a lease later", func(w *World) {
		rdb := w.Dial()
		gone := w.New(rdb, fairlock.WithLease(w.Lease))
		lease := w.Lock(gone, "x")
		b := w.Locker()
		next := w.Queue(w.Context(), b, "x", 1)
		w.NoError(gone.Close()) // what is held stays held
		w.NoError(rdb.Close())
		w.That(lease.Err() != nil, "trusted after Close")
		w.Unlock(w.Take(next))
	}},
	{"Extend makes trust last, whatever the lease, and never shortens it", briefly(func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x", fairlock.LeaseFor(3*w.Lease))
		asked := time.Now()
		w.NoError(lease.Extend(w.Context(), 6*w.Lease))
		before := lease.Deadline()
		w.That(before.Sub(asked) >= 6*w.Lease, "trusted for %v", before.Sub(asked))
		w.NoError(lease.Extend(w.Context(), w.Lease))
		w.That(!lease.Deadline().Before(before), "shortened")
		w.Pass(4 * w.Lease)
		w.NoError(lease.Err())
		w.That(lease.Extend(w.Context(), 0) != nil, "Extend by nothing")
		w.Unlock(lease)
		w.Is(lease.Extend(w.Context(), w.Lease), fairlock.ErrNotHeld)
	})},
	{"the lease's context keeps values and outlives the acquiring context", func(w *World) {
		type key struct{}
		a := w.Locker()
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), key{}, "v"), time.Hour)
		lease := w.LockIn(ctx, a, "x")
		cancel()
		w.That(lease.Context().Err() == nil && lease.Context().Value(key{}) == "v", "the acquire context owns the lease")
		w.Unlock(lease)
		w.Is(context.Cause(lease.Context()), fairlock.ErrNotHeld)
	}},
	{"Do releases on error and on panic, panics on, and joins errors", func(w *World) {
		a, b := w.Locker(), w.Locker()
		mine := errors.New("mine")
		w.Is(a.Do(w.Context(), "x", func(context.Context, *fairlock.Lease) error { return mine }), mine)
		func() {
			defer func() { w.That(recover() == "boom", "the panic was swallowed") }()
			_ = a.Do(w.Context(), "x", func(context.Context, *fairlock.Lease) error { panic("boom") })
		}()
		free, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Unlock(free)
		err = a.Do(w.Context(), "x", func(ctx context.Context, _ *fairlock.Lease) error {
			w.admin.Del(w.Context(), w.Record("x"))
			<-ctx.Done()
			w.Is(context.Cause(ctx), fairlock.ErrLost)
			return nil
		})
		w.Is(err, fairlock.ErrLost)
	}},
	{"the context inside Do dies with the caller's, and the lock is still trusted", func(w *World) {
		a := w.Locker()
		ctx, cancel := context.WithCancel(w.Context())
		w.NoError(a.Do(ctx, "x", func(inner context.Context, l *fairlock.Lease) error {
			cancel()
			<-inner.Done()
			w.NoError(l.Err())
			w.That(l.Context().Err() == nil, "the Lease's own context died too")
			return nil
		}))
	}},
}
