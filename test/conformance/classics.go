package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// classicTests are the tests of Redisson for its lock, as far as they make sense here and no other
// group has them.
var classicTests = []test{
	{"every re-entry counts one up and every Unlock one down, for whoever holds the lock and for whoever looks", counting},
	{"a partial Unlock keeps what remains of a fixed lease, whether it is longer or shorter than the Locker's own", partialUnlock},
	{"no re-entry shortens a lease and no end of one does, whoever makes it", func(w *World) {
		a, b := w.Locker(), w.Locker()
		saga := fairlock.WithOwner("saga-7")
		outer := w.Lock(a, "x", saga, fairlock.LeaseFor(20*w.Lease))
		ends, trusted := w.expiry("x"), outer.Deadline()
		kept := func(after string) {
			w.Helper()
			w.That(w.expiry("x") >= ends && !outer.Deadline().Before(trusted), "shortened after %s", after)
		}
		short := w.LockIn(outer.Context(), a, "x", fairlock.LeaseFor(100*time.Millisecond))
		kept("a nested call that asks for less")
		renewed := w.LockIn(outer.Context(), a, "x")
		kept("a nested call that is renewed")
		elsewhere := w.Lock(b, "x", saga)
		kept("a call of the owner's other process")
		for _, l := range []*fairlock.Lease{elsewhere, renewed, short} {
			w.Unlock(l)
			kept("an Unlock")
		}
		w.Unlock(outer)
	}},
	{"a nested call with a fixed lease does not end the renewals", func(w *World) {
		a, b := w.Locker(), w.Locker()
		outer := w.Lock(a, "x")
		inner := w.LockIn(outer.Context(), a, "x", fairlock.LeaseFor(100*time.Millisecond))
		w.Pass(w.Lease / time.Duration(w.rounds(1, 6)))
		w.Unlock(inner)
		w.renewed(outer, w.Lease*2/3) // a word on the depth, within a second, prolongs it too
		_, err := b.TryLock(w.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(outer)
	}},
	{"an Unlock of what one does not hold fails, says why and changes nothing", briefly(strangers)},
	{"each Lease counts down once, however often it is unlocked", func(w *World) {
		a, b := w.Locker(), w.Locker()
		outer := w.Lock(a, "x")
		inner := w.LockIn(outer.Context(), a, "x")
		w.Unlock(inner)
		for range 3 {
			w.Is(inner.Unlock(w.Context()), fairlock.ErrNotHeld)
		}
		w.That(outer.Err() == nil && outer.Depth() == 1, "depth %d, %v", outer.Depth(), outer.Err())
		_, err := b.TryLock(w.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.Unlock(outer)
	}},
	{"an Unlock after the end of a fixed lease says that the lock is lost and releases nothing, and Do says so too", func(w *World) {
		a, b := w.Locker(), w.Locker()
		fixed := fairlock.LeaseFor(w.Lease)
		outer := w.Lock(a, "x", fixed)
		inner := w.LockIn(outer.Context(), a, "x", fixed)
		<-outer.Done()
		w.Is(inner.Unlock(w.Context()), fairlock.ErrLost)
		// The record lasts for another margin.
		w.That(!w.Fake || w.expiry("x") > 0, "it released what is not its own any more")
		w.Until("the server ends it", func() bool { return w.expiry("x") < 0 })
		w.Is(outer.Unlock(w.Context()), fairlock.ErrLost)
		w.That(outer.Depth() == 0 && inner.Depth() == 0, "depths %d and %d", outer.Depth(), inner.Depth())
		next, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Is(outer.Unlock(w.Context()), fairlock.ErrLost)
		w.Unlock(next)
		err = a.Do(w.Context(), "x", func(ctx context.Context, _ *fairlock.Lease) error {
			<-ctx.Done()
			return nil
		}, fairlock.LeaseFor(w.brief))
		w.Is(err, fairlock.ErrLost)
	}},
	{"locks that nobody unlocks go from one to the next as their leases end, and not before", briefly(func(w *World) {
		const n = 4
		// Not a multiple of the time between two requests of a waiter.
		each := (w.Lease - w.Lease/9).Truncate(time.Millisecond)
		if !w.Fake {
			each = 1350 * time.Millisecond
		}
		fixed := fairlock.LeaseFor(each)
		// Held until all are in line, however long that takes.
		first := w.Lock(w.Locker(fairlock.WithLease(w.calm())), "x")
		var line []<-chan Outcome
		for i := range n + 1 {
			line = append(line, w.Queue(w.Context(), w.Locker(), "x", i+1, fixed))
		}
		began := time.Now()
		w.Unlock(first)
		last, until := w.Take(w.next(&line)), time.Time{}
		for len(line) > 0 {
			<-last.Done()
			next := w.Wait(w.next(&line))
			w.NoError(next.Err)
			w.That(next.At.After(last.Deadline()), "two trust the lock")
			lease := next.Lease
			w.That(lease.Token() > last.Token(), "token %d after %d", lease.Token(), last.Token())
			w.Is(last.Err(), fairlock.ErrLost)
			until = next.At.Add(each / 2) // the outcome may have come late
			if ends := lease.Deadline(); ends.Before(until) {
				until = ends
			}
			w.trusted(until, lease.Err())
			last = lease
		}
		took := time.Since(began)
		w.That(took > n*each-10*time.Millisecond && (!w.Fake || took < n*each+each/10), "%d leases of %v ended in %v", n, each, took)
		w.trusted(until, last.Unlock(w.Context()))
	})},
	{"what remains of a lease is shown, and after the Unlock nothing is", func(w *World) {
		a, b := w.Locker(), w.Locker()
		for lease, options := range map[time.Duration][]fairlock.LockOption{w.Lease: nil, time.Hour: {fairlock.LeaseFor(time.Hour)}} {
			before := time.Now()
			held := w.Lock(a, "x", options...)
			s, err := b.Inspect(w.Context(), "x")
			w.NoError(err)
			var told *fairlock.HeldError
			_, err = b.TryLock(w.Context(), "x")
			w.That(errors.As(err, &told), "got %v", err)
			for _, left := range []time.Duration{s.Holder.Remaining, told.Remaining} {
				w.remains(left, lease, before)
			}
			w.Unlock(held)
			s, err = b.Inspect(w.Context(), "x")
			w.NoError(err)
			w.That(s.Holder == nil && s.Token == held.Token(), "after Unlock: %+v", s)
		}
	}},
	{"force ends all Leases on a lock, nested ones and those of the owner's other processes, and none of them re-enters", forcing},
	{"who was forced from a fixed lease learns it from Unlock and from Extend at the latest, and disturbs nobody", func(w *World) {
		a, admin := w.Locker(), w.Locker()
		for _, ask := range []func(*fairlock.Lease) error{
			func(l *fairlock.Lease) error { return l.Unlock(w.Context()) },
			func(l *fairlock.Lease) error { return l.Extend(w.Context(), 40*w.Lease) },
		} {
			lease := w.Lock(a, "x", fairlock.LeaseFor(20*w.Lease))
			w.NoError(admin.ForceUnlock(w.Context(), "x"))
			next := w.Lock(admin, "x", fairlock.LeaseFor(20*w.Lease))
			record := w.record()
			w.Is(ask(lease), fairlock.ErrLost)
			w.Is(lease.Err(), fairlock.ErrLost)
			w.That(w.record() == record, "the next one's record changed")
			w.Unlock(next)
		}
	}},
	{"when a client is gone the lock is free a lease later, however deep it was, and the next one counts from one", func(w *World) {
		b := w.Locker()
		gone, die := w.mortal()
		leases := []*fairlock.Lease{w.Lock(gone, "x")}
		for range 2 {
			leases = append(leases, w.LockIn(leases[0].Context(), gone, "x"))
		}
		w.shows(b, 3, "x")
		die()
		_, err := b.TryLock(w.Context(), "x")
		var held *fairlock.HeldError
		w.That(errors.As(err, &held) && held.Remaining <= w.Lease, "got %v", err)
		w.Pass(held.Remaining)
		w.Until("it is free", func() bool { return w.expiry("x") < 0 })
		next, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		w.That(next.Depth() == 1 && w.depth(b, "x") == 1, "depths %d and %d", next.Depth(), w.depth(b, "x"))
		for _, l := range leases {
			w.Is(l.Unlock(w.Context()), fairlock.ErrLost)
		}
		w.Unlock(next)
	}},
	{"when one of an owner's clients is gone the other keeps the lock, and its Unlock frees it at once", func(w *World) {
		a, b := w.Locker(fairlock.WithLease(w.calm())), w.Locker()
		saga := fairlock.WithOwner("saga-7")
		gone, die := w.mortal()
		w.Lock(gone, "x", saga)
		kept := w.Lock(a, "x", saga)
		w.That(w.depth(b, "x") == 2, "depth %d", w.depth(b, "x"))
		die()
		w.Pass(w.Lease)
		w.Until("only one counts, or none", func() bool { return w.depth(b, "x") < 2 })
		w.NoError(kept.Err())
		w.That(w.depth(b, "x") == 1, "depth %d", w.depth(b, "x"))
		w.Unlock(kept)
		next, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Unlock(next)
	}},
	{"the end of a nested lock does not end the renewals of the next one", func(w *World) {
		a, b := w.Locker(), w.Locker()
		outer := w.Lock(a, "x")
		inner := w.LockIn(outer.Context(), a, "x")
		w.Unlock(outer)
		w.Unlock(inner)
		for _, l := range []Locker{a, b} {
			next := w.Lock(l, "x")
			w.renewed(next, 0)
			w.Unlock(next)
		}
	}},
	{"an Unlock while a renewal is on its way leaves no record, whichever comes first", renewalsInFlight},
	{"a wait of a certain length takes as long, and does not delay who comes after it", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		w.Unlock(w.Lock(b, "{x}y")) // a Locker's first look at the server would count as waiting too
		lease := w.Lock(a, "x")
		wait := w.answered(w.Lease * 3 / 10) // not a multiple of the time after which a plain lock is tried again
		began := time.Now()
		_, err := b.Lock(w.Context(), "x", fairlock.WaitAtMost(wait))
		took := time.Since(began)
		w.Is(err, fairlock.ErrHeld)
		w.That(took >= wait && (!w.Fake || took < wait+wait/100), "it took %v", took)
		w.Until("it has left", func() bool { return w.InLine("x") == 0 })
		w.Unlock(lease)
		for _, l := range []Locker{c, b} {
			next, err := l.TryLock(w.Context(), "x")
			w.NoError(err)
			w.Unlock(next)
		}
	}},
	{"the token grows with every acquisition, whatever the call, and not with re-entry", func(w *World) {
		a, b := w.Locker(), w.Locker()
		last := int64(0)
		have := func(l *fairlock.Lease, err error) *fairlock.Lease {
			w.Helper()
			w.NoError(err)
			w.That(l.Token() > last, "token %d after %d", l.Token(), last)
			last = l.Token()
			return l
		}
		for range 3 {
			for _, l := range []Locker{a, b} {
				w.Unlock(have(l.Lock(w.Context(), "x")))
				w.Unlock(have(l.TryLock(w.Context(), "x")))
				w.Unlock(have(l.Lock(w.Context(), "x", fairlock.LeaseFor(w.Lease), fairlock.WithOwner("saga-7"))))
				w.NoError(l.Do(w.Context(), "x", func(ctx context.Context, outer *fairlock.Lease) error {
					have(outer, nil)
					return l.Do(ctx, "x", func(_ context.Context, inner *fairlock.Lease) error {
						w.That(inner.Token() == last, "token %d inside %d", inner.Token(), last)
						return nil
					})
				}))
			}
		}
	}},
	{"every increment under the lock counts, of many goroutines of some Lockers", func(w *World) {
		lockers := []Locker{w.Locker(), w.Locker(), w.Locker()}
		const each, rounds = 5, 4
		counter := 0
		var all sync.WaitGroup
		failed := make(chan error, each*len(lockers))
		for _, l := range lockers {
			for range each {
				all.Go(func() {
					for range rounds {
						if err := l.Do(w.Context(), "x", func(context.Context, *fairlock.Lease) error {
							n := counter
							runtime.Gosched()
							counter = n + 1
							return nil
						}); err != nil {
							failed <- err
							return
						}
					}
				})
			}
		}
		all.Wait()
		close(failed)
		for err := range failed {
			w.NoError(err)
		}
		w.That(counter == len(lockers)*each*rounds, "%d of %d increments", counter, len(lockers)*each*rounds)
	}},
	{"a goroutine that a pool uses again re-enters neither what it has detached nor what was unlocked elsewhere", pooledGoroutine},
}

// mortal makes a Locker, and a function that ends the Locker and its connections. What the Locker
// holds stays held.
func (w *World) mortal() (l Locker, die func()) {
	rdb := w.Dial()
	l = w.New(rdb, fairlock.WithLease(w.Lease), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	die = sync.OnceFunc(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	w.Cleanup(die)
	return l, die
}

// expiry returns when the server ends a lock's record, by its own clock. It is negative without a
// record.
func (w *World) expiry(name string) time.Duration {
	w.Helper()
	at, err := w.admin.PExpireTime(w.Context(), w.Record(name)).Result()
	w.NoError(err)
	return at
}

// record returns what the server knows of x's owner. It leaves out the depth, which follows within
// a second.
func (w *World) record() string {
	w.Helper()
	fields, err := w.admin.HGetAll(w.Context(), w.Record("x")).Result()
	w.NoError(err)
	return fmt.Sprint(fields["owner"], fields["token"], slices.Sorted(maps.Keys(fields)), w.expiry("x"))
}

// next takes the next call to be served out of the line. That is the first call in line or, where
// there is no order, one with an outcome.
func (w *World) next(line *[]<-chan Outcome) <-chan Outcome {
	w.Helper()
	i := 0
	if w.Plain {
		w.Until("somebody is served", func() bool {
			i = slices.IndexFunc(*line, func(c <-chan Outcome) bool { return len(c) > 0 })
			return i >= 0
		})
	}
	c := (*line)[i]
	*line = slices.Delete(*line, i, i+1)
	return c
}
