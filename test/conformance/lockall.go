package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
)

var lockAllTests = []test{
	{"several locks are had together, each name once, in one order and with tokens of their own, and end together", func(w *World) {
		a, b := w.Locker(), w.Locker()
		before := w.Lock(a, "y")
		w.Unlock(before)
		all, err := a.LockAll(w.Context(), []string{"z", "x", "{y}", "y", "x"})
		w.NoError(err)
		w.That(slices.Equal(all.Names(), []string{"x", "{y}", "z"}), "got %q", all.Names())
		w.That(all.Token("y") > before.Token() && all.Token("x") > 0 && all.Token("w") == 0, "tokens %d, %d", all.Token("x"), all.Token("y"))
		w.That(all.Lease("z").Name() == "z" && all.Lease("w") == nil, "it has the wrong Leases")
		w.That(all.Err() == nil && all.Context().Err() == nil && time.Until(all.Deadline()) > 0, "%v", all.Err())
		for _, name := range all.Names() {
			_, err := b.TryLock(w.Context(), name)
			w.Is(err, fairlock.ErrHeld)
		}
		w.NoError(all.Unlock(w.Context()))
		<-all.Done()
		w.Is(context.Cause(all.Context()), fairlock.ErrNotHeld)
		w.Is(all.Unlock(w.Context()), fairlock.ErrNotHeld)
		again, err := b.LockAll(w.Context(), []string{"x", "y", "z"}, fairlock.WaitAtMost(0))
		w.NoError(err)
		w.NoError(again.Unlock(w.Context()))
	}},
	{"who asks for several locks at once and cannot have one has none, and is told which one and who has it", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(a, "y")
		_, err := b.LockAll(w.Context(), []string{"x", "y", "z"}, fairlock.WaitAtMost(0))
		var which *fairlock.Error
		var who *fairlock.HeldError
		w.That(errors.As(err, &which) && which.Op == "lockall" && which.Name == "y", "got %v", err)
		w.That(errors.As(err, &who) && who.Owner == held.Owner(), "got %v", err)
		hasNone := func(atOnce bool) {
			if atOnce {
				for _, name := range []string{"z", "x"} {
					had, err := b.TryLock(w.Context(), name)
					w.NoError(err)
					w.Unlock(had)
				}
			}
			w.free("x", "z")
		}
		hasNone(true)
		_, err = b.LockAll(w.Context(), []string{"x", "y", "z"}, fairlock.WaitAtMost(w.answered(w.Lease/2)))
		w.Is(err, fairlock.ErrHeld)
		hasNone(w.Fake) // a call whose time is over waits only a moment for what it gives back
		ctx, cancel := context.WithTimeout(w.Context(), w.Lease/4)
		defer cancel()
		_, err = b.LockAll(ctx, []string{"x", "y", "z"})
		w.Is(err, context.DeadlineExceeded)
		hasNone(w.Fake)
		w.Unlock(held)
	}},
	{"who waits for one of several locks has those before it and none behind it", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(a, "y")
		all := w.waitsForAll(w.Context(), b, "y", "z", "y", "x")
		_, err := a.TryLock(w.Context(), "x")
		w.Is(err, fairlock.ErrHeld)
		w.free("z")
		last := w.Lock(a, "z")
		w.Unlock(held)
		w.Until("it waits for the last", func() bool { return w.InLine("z") == 1 })
		w.Unlock(last)
		o := <-all
		w.NoError(o.err)
		w.NoError(o.leases.Unlock(w.Context()))
	}},
	{"calls that want the same locks in opposite orders never wait for each other", func(w *World) {
		const callers, rounds = 6, 10
		lockers := []Locker{w.Locker(), w.Locker(), w.Locker()}
		orders := [][]string{{"x", "y", "z"}, {"z", "y", "x"}, {"y", "z"}, {"z", "x"}}
		var inside sync.Map
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for round := range rounds {
					names := orders[(i+round)%len(orders)]
					err := lockers[i%len(lockers)].DoAll(w.Context(), names, func(ctx context.Context, _ *fairlock.Leases) error {
						for _, name := range names {
							if _, taken := inside.LoadOrStore(name, i); taken {
								return errors.New("two have " + name)
							}
						}
						for _, name := range names {
							inside.Delete(name)
						}
						return ctx.Err()
					})
					if err != nil {
						w.Error(err)
					}
				}
			})
		}
		all.Wait()
	}},
	{"the context of several locks re-enters each of them, and a lock that is held is re-entered with the others", func(w *World) {
		a := w.Locker()
		outer := w.Lock(a, "y")
		all, err := a.LockAll(outer.Context(), []string{"z", "y", "x"})
		w.NoError(err)
		w.That(outer.Depth() == 2 && all.Token("y") == outer.Token(), "depth %d", outer.Depth())
		for _, name := range all.Names() {
			inner := w.LockIn(all.Context(), a, name)
			w.That(inner.Token() == all.Token(name), "%s: token %d in %d", name, inner.Token(), all.Token(name))
			w.Unlock(inner)
		}
		nested, err := a.LockAll(all.Context(), []string{"x", "z"})
		w.NoError(err)
		w.NoError(nested.Unlock(w.Context()))
		w.NoError(all.Err())
		w.NoError(all.Unlock(w.Context()))
		w.That(outer.Err() == nil && outer.Depth() == 1, "depth %d, %v", outer.Depth(), outer.Err())
		w.Unlock(outer)
		w.free("x", "y", "z")
	}},
	{"who holds the last of several locks and waits for the first re-enters the last when its turn comes", func(w *World) {
		a, b := w.Locker(), w.Locker()
		outer, first := w.Lock(b, "z"), w.Lock(a, "x")
		all := w.waitsForAll(outer.Context(), b, "x", "z", "x")
		w.Unlock(first)
		o := <-all
		w.NoError(o.err)
		w.NoError(o.leases.Unlock(w.Context()))
		w.Unlock(outer)
	}},
	{"when one of several locks is lost, their context ends, and Unlock says so and releases the others", func(w *World) {
		a, b := w.Locker(), w.Locker()
		var all *fairlock.Leases
		err := a.DoAll(w.Context(), []string{"x", "y", "z"}, func(ctx context.Context, leases *fairlock.Leases) error {
			all = leases
			w.NoError(b.ForceUnlock(w.Context(), "y"))
			<-ctx.Done()
			<-leases.Done()
			w.Is(context.Cause(ctx), fairlock.ErrLost)
			w.Is(context.Cause(leases.Context()), fairlock.ErrLost)
			w.Is(leases.Err(), fairlock.ErrLost)
			w.NoError(leases.Lease("x").Err())
			return nil
		})
		w.Is(err, fairlock.ErrLost)
		var which *fairlock.Error
		w.That(errors.As(err, &which) && which.Name == "y", "got %v", err)
		w.Is(all.Err(), fairlock.ErrNotHeld)
		w.free("x", "y", "z")
	}},
	{"a lock that is lost while its call waits for another ends the wait, and the error names it", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(a, "y")
		all := w.waitsForAll(w.Context(), b, "y", "x", "y")
		w.NoError(a.ForceUnlock(w.Context(), "x"))
		o := <-all
		w.Is(o.err, fairlock.ErrLost)
		var which *fairlock.Error
		w.That(errors.As(o.err, &which) && which.Name == "x", "got %v", o.err)
		w.Unlock(held)
		w.free("x", "y")
	}},
	{"a call for several locks that gives up, or whose Locker ends, leaves none", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(a, "y")
		ctx, cancel := context.WithCancel(w.Context())
		all := w.waitsForAll(ctx, b, "y", "x", "y", "z")
		cancel()
		o := <-all
		w.Is(o.err, context.Canceled)
		var where *fairlock.WaitError
		w.That(errors.As(o.err, &where), "got %v", o.err)
		w.free("x", "z")
		all = w.waitsForAll(w.Context(), b, "y", "x", "y", "z")
		w.NoError(b.Close())
		o = <-all
		w.Is(o.err, fairlock.ErrClosed)
		w.free("x", "z")
		w.Unlock(held)
	}},
	{"Close gives back the locks of a call that still waits for others, whatever its OnQueued does", func(w *World) {
		if w.Plain {
			return // OnQueued runs before the call stands in line
		}
		rdb := w.Dial()
		a, b := w.Locker(), w.New(rdb, fairlock.WithLease(w.Lease))
		held := w.Lock(a, "y")
		slow, goes := w.staysIn(func(o fairlock.LockOption) (*fairlock.Lease, error) {
			_, err := b.LockAll(context.Background(), []string{"x", "y"}, o)
			return nil, err
		})
		w.NoError(b.Close())
		w.NoError(rdb.Close())
		free, err := a.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Unlock(free)
		close(goes)
		w.Is((<-slow).Err, fairlock.ErrClosed)
		w.Unlock(held)
	}},
	{"a Shutdown lets a call that has some of its locks wait for the others", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := w.Lock(a, "y")
		all := w.waitsForAll(w.Context(), b, "y", "x", "y", "z")
		ended := make(chan error)
		go func() { ended <- b.Shutdown(w.Context()) }()
		w.Until("no other call gets through", func() bool {
			lease, err := b.TryLock(w.Context(), "w")
			_ = lease.Unlock(w.Context())
			return errors.Is(err, fairlock.ErrClosed)
		})
		w.Unlock(held)
		o := <-all
		w.NoError(o.err)
		w.NoError(o.leases.Unlock(w.Context()))
		w.NoError(<-ended)
	}},
	{"an Observer is told of each of several locks how long the call for them has waited", func(w *World) {
		// One lock behind the first is waited for; two are asked for at once.
		for _, names := range [][]string{{"x", "y"}, {"x", "y", "z"}} {
			told := make(chan fairlock.Event, 100)
			a, b := w.Locker(), w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) { told <- e })))
			held := w.Lock(a, "x")
			all := w.waitsForAll(w.Context(), b, "x", names...)
			w.Pass(20 * time.Millisecond)
			w.Unlock(held)
			o := <-all
			w.NoError(o.err)
			for range names {
				e := <-told
				for e.Kind != fairlock.Acquired {
					e = <-told
				}
				w.That(e.Took >= 20*time.Millisecond, "%s took %v", e.Name, e.Took)
			}
			w.NoError(o.leases.Unlock(w.Context()))
		}
	}},
	{"DoAll releases the locks when its function panics", func(w *World) {
		a := w.Locker()
		func() {
			defer func() { w.That(recover() == "boom", "no panic") }()
			_ = a.DoAll(w.Context(), []string{"x", "y"}, func(context.Context, *fairlock.Leases) error { panic("boom") })
		}()
		w.free("x", "y")
	}},
	{"no names, a name that makes no sense, or no function is an error at once", func(w *World) {
		a := w.Locker()
		for _, names := range [][]string{nil, {}, {"x", ""}, {"x", "}"}} {
			_, err := a.LockAll(w.Context(), names)
			w.Is(err, fairlock.ErrInvalid)
		}
		w.Is(a.DoAll(w.Context(), []string{"x"}, nil), fairlock.ErrInvalid)
		_, err := a.LockAll(nil, []string{"x"}) //nolint:staticcheck // that is the test
		w.Is(err, fairlock.ErrInvalid)
		for _, none := range []*fairlock.Leases{nil, {}} {
			w.Is(none.Unlock(w.Context()), fairlock.ErrNotHeld)
			w.Is(none.Err(), fairlock.ErrNotHeld)
			<-none.Done()
			w.That(none.Names() == nil && none.Lease("x") == nil && none.Token("x") == 0 && none.Deadline().IsZero(), "it has something")
		}
		w.That(len(w.keys(w.Context())) == 0, "it asked the server")
	}},
}

// several is the result of a LockAll in the background.
type several struct {
	leases *fairlock.Leases
	err    error
}

// waitsForAll has a LockAll wait for the lock called first, of which it is the only waiter.
func (w *World) waitsForAll(ctx context.Context, l Locker, first string, names ...string) <-chan several {
	w.Helper()
	result := make(chan several, 1)
	go func() {
		queued := false
		leases, err := l.LockAll(ctx, names, fairlock.OnQueued(func(int) {
			if !queued {
				queued = true
				w.waiting.Add(1)
			}
		}))
		if queued {
			w.waiting.Add(-1)
		}
		result <- several{leases, err}
	}()
	w.Until("it waits for "+first, func() bool { return w.InLine(first) == 1 })
	return result
}

// free waits until each of the locks can be had.
func (w *World) free(names ...string) {
	w.Helper()
	l := w.Locker()
	for _, name := range names {
		var lease *fairlock.Lease
		w.Until(name+" is free", func() (ok bool) {
			var err error
			lease, err = l.TryLock(w.Context(), name)
			w.That(err == nil || errors.Is(err, fairlock.ErrHeld), "%v", err)
			return err == nil
		})
		w.Unlock(lease)
	}
	w.NoError(l.Close())
}
