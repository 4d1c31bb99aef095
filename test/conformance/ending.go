package conformance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
)

var endingTests = []test{
	{"a Locker that meets a protocol it does not know says so, and touches nothing", func(w *World) {
		a := w.Locker()
		const key = "fairlock:protocol"
		w.NoError(w.admin.Set(w.Context(), key, "17", time.Hour).Err())
		for range 2 {
			_, err := a.Lock(w.Context(), "x")
			w.Is(err, errors.ErrUnsupported)
			w.That(strings.Contains(err.Error(), `"17"`) && strings.Contains(err.Error(), "protocol 1 only") && strings.Contains(err.Error(), key), "%v", err)
			_, err = a.Inspect(w.Context(), "x")
			w.Is(err, errors.ErrUnsupported)
		}
		w.That(w.admin.Exists(w.Context(), w.Record("x")).Val() == 0 && w.admin.Get(w.Context(), key).Val() == "17", "something was written")
		w.NoError(w.admin.Del(w.Context(), key).Err())
		w.Unlock(w.Lock(a, "x"))
		w.That(w.admin.Get(w.Context(), key).Val() == "1", "the protocol is not kept")
	}},
	{"Unlock works with a cancelled context, once, and on nothing says that nothing is held", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		dead, cancel := context.WithCancel(w.Context())
		cancel()
		w.NoError(lease.Unlock(dead))
		w.Is(lease.Unlock(w.Context()), fairlock.ErrNotHeld)
		w.Is(lease.Err(), fairlock.ErrNotHeld)
		var none *fairlock.Lease
		w.Is(none.Unlock(w.Context()), fairlock.ErrNotHeld)
		w.That(none.Err() != nil && none.Token() == 0 && none.Depth() == 0 && none.Extend(w.Context(), time.Second) != nil, "nil holds something")
		w.Unlock(w.Lock(b, "x"))
	}},
	{"Close abandons waits cleanly: they say so, nobody behind them stalls", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		first := w.Queue(w.Context(), b, "x", 1)
		second := w.Queue(w.Context(), c, "x", 2)
		w.NoError(b.Close())
		w.Is(w.Wait(first).Err, fairlock.ErrClosed)
		w.That(w.InLine("x") == 1, "%d in line after Close returned", w.InLine("x"))
		w.Unlock(lease)
		w.Unlock(w.Take(second))
		_, err := b.Lock(w.Context(), "x")
		w.Is(err, fairlock.ErrClosed)
		_, err = b.Inspect(w.Context(), "x")
		w.Is(err, fairlock.ErrClosed)
		w.NoError(b.Close())
	}},
	{"Close ends the contexts of held leases, and Unlock still hands over", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		next := w.Queue(w.Context(), b, "x", 1)
		w.NoError(a.Close())
		w.Is(context.Cause(lease.Context()), fairlock.ErrClosed)
		w.Is(lease.Err(), fairlock.ErrClosed)
		w.That(len(next) == 0, "Close released what may still be in use")
		w.Unlock(lease)
		w.Unlock(w.Take(next))
	}},
	{"Shutdown lets holders finish, with their re-entries and what they need", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		other := w.Lock(b, "y")
		waiting := w.Queue(w.Context(), a, "y", 1)
		done := make(chan error, 1)
		go func() { done <- a.Shutdown(w.Context()) }()
		w.Is(w.Wait(waiting).Err, fairlock.ErrClosed)
		_, err := a.Lock(w.Context(), "z")
		w.Is(err, fairlock.ErrClosed)
		nested := w.LockIn(lease.Context(), a, "x")
		needed := w.LockIn(lease.Context(), a, "z")
		late := w.Queue(lease.Context(), a, "y", 1)
		w.Unlock(other)
		for _, l := range []*fairlock.Lease{w.Take(late), needed, nested} {
			w.NoError(l.Err())
			w.Unlock(l)
		}
		w.That(len(done) == 0, "Shutdown did not wait")
		w.Unlock(lease)
		w.NoError(<-done)
		_, err = a.Lock(lease.Context(), "x")
		w.That(err != nil, "open after Shutdown")
	}},
	{"Shutdown gives up with its context and closes all the same", func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		ctx, cancel := context.WithTimeout(w.Context(), 20*time.Millisecond)
		defer cancel()
		w.Is(a.Shutdown(ctx), context.DeadlineExceeded)
		w.Is(lease.Err(), fairlock.ErrClosed)
		w.Unlock(lease)
	}},
	{"Shutdown of a closed Locker, or of one that is closed meanwhile, does not wait", func(w *World) {
		a, b := w.Locker(), w.Locker()
		first, second := w.Lock(a, "x"), w.Lock(b, "y")
		w.NoError(a.Close())
		shut := func(l Locker) <-chan Outcome {
			return w.calls(func() (*fairlock.Lease, error) { return nil, l.Shutdown(context.Background()) })
		}
		w.Is(w.Wait(shut(a)).Err, fairlock.ErrClosed)
		done := shut(b)
		w.Until("it drains", func() bool {
			lease, err := b.TryLock(w.Context(), "z")
			if err == nil {
				w.Unlock(lease)
			}
			return errors.Is(err, fairlock.ErrClosed)
		})
		w.NoError(b.Close())
		w.Is(w.Wait(done).Err, fairlock.ErrClosed)
		w.Unlock(first)
		w.Unlock(second)
	}},
	{"a goroutine that lost a lock in Do is not within one, and Shutdown stops it", func(w *World) {
		a, b := w.Locker(), w.Locker()
		w.Is(a.Do(w.Context(), "x", func(_ context.Context, lease *fairlock.Lease) error {
			w.NoError(b.ForceUnlock(w.Context(), "x"))
			w.closes(lease.Done(), "the lease")
			return nil
		}), fairlock.ErrLost)
		w.shutdownStops(a, b)
	}},
	{"nor is one that lost the lock as its Do began", func(w *World) {
		told := make(chan fairlock.Kind, 100)
		a, b := w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) {
			if e.Kind == fairlock.Acquired || e.Kind == fairlock.Lost {
				told <- e.Kind
			}
		})), fairlock.WithLogger(slog.New(handler(func(r slog.Record) {
			w.That(!strings.Contains(r.Message, "did not return"), "what the caller is told is logged: %s", r.Message)
		})))), w.Locker()
		forced := false
		ctx := curious{w.Context(), func() {
			if !forced && b.ForceUnlock(w.Context(), "x") == nil { // a has the lock, and makes the context inside Do
				forced = true
				w.That(w.hears(told) == fairlock.Acquired && w.hears(told) == fairlock.Lost, "not lost")
			}
		}}
		w.Is(a.Do(ctx, "x", func(context.Context, *fairlock.Lease) error { return nil }), fairlock.ErrLost)
		w.shutdownStops(a, b)
	}},
	{"of several Unlocks at once one is told the outcome, and the others that nothing is held", func(w *World) {
		a := w.Locker()
		for range 30 {
			lease := w.Lock(a, "x")
			outcomes := make(chan error, 3)
			for range cap(outcomes) {
				go func() { outcomes <- lease.Unlock(context.Background()) }()
			}
			clean := 0
			for range cap(outcomes) {
				if err := <-outcomes; err == nil {
					clean++
				} else {
					w.Is(err, fairlock.ErrNotHeld)
				}
			}
			w.That(clean == 1, "%d of them released it", clean)
		}
	}},
	{"half of many waiters cancelled at random moments leave nothing, and the other half is served in order", func(w *World) {
		a, b := w.Locker(), w.Locker()
		holder := w.Lock(a, "x")
		const n = 60
		var line [n]<-chan Outcome
		var cancel [n]context.CancelFunc
		for i := range n {
			var ctx context.Context
			ctx, cancel[i] = context.WithCancel(w.Context())
			line[i] = w.Queue(ctx, []Locker{a, b}[i%2], "x", i+1)
		}
		go func() {
			for i := 0; i < n; i += 2 {
				cancel[i]()
			}
		}()
		w.Unlock(holder)
		last := holder.Token()
		for i := range n {
			if w.Plain {
				w.Until("another one returns", func() bool {
					i = slices.IndexFunc(line[:], func(c <-chan Outcome) bool { return len(c) > 0 })
					return i >= 0
				})
			}
			o := w.Wait(line[i])
			if o.Err != nil {
				w.That(i%2 == 0, "waiter %d: %v", i, o.Err)
				continue
			}
			w.That(o.Lease.Token() > last, "out of order")
			last = o.Lease.Token()
			w.Unlock(o.Lease)
			cancel[i]()
		}
	}},
}

var inputTests = []test{
	{"what makes no sense is an error of the call and nothing is sent", func(w *World) {
		a := w.Locker()
		long := string(make([]byte, 600))
		for _, name := range []string{"", "}", "}x", long} {
			_, err := a.Lock(w.Context(), name)
			w.Is(err, fairlock.ErrInvalid)
		}
		for _, option := range []fairlock.LockOption{
			fairlock.LeaseFor(0), fairlock.LeaseFor(-time.Second), fairlock.LeaseFor(99 * time.Millisecond), fairlock.WaitAtMost(-1),
			fairlock.MaxWaiters(0), fairlock.MaxWaiters(-1), fairlock.OnQueued(nil), fairlock.WithReplicas(0, time.Second), fairlock.WithReplicas(1, 0),
			fairlock.WithReplicas(1, time.Hour), fairlock.WithFsync(-1, time.Second), fairlock.WithFsync(0, 0), fairlock.WithFsync(0, time.Hour),
			fairlock.WithOwner(""), fairlock.WithOwner(long), fairlock.Note(long),
		} {
			_, err := a.Lock(w.Context(), "x", option)
			w.Is(err, fairlock.ErrInvalid)
		}
		for _, option := range []fairlock.Option{
			fairlock.WithLease(0), fairlock.WithLease(-1), fairlock.WithPrefix(""), fairlock.WithPrefix("{a}"), fairlock.WithLogger(nil),
			fairlock.WithIdentity(7), fairlock.WithObserver(nil),
		} {
			_, err := w.Locker(option).TryLock(w.Context(), "x")
			w.Is(err, fairlock.ErrInvalid)
		}
		dead, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := a.Lock(dead, "x")
		w.Is(err, context.Canceled)
		w.That(w.admin.DBSize(w.Context()).Val() == 0, "something was written")
	}},
	{"a context that is nil, and a function that is, are an error at once; Unlock does without", func(w *World) {
		a := w.Locker()
		var none context.Context
		lease := w.Lock(a, "x")
		_, err := a.Lock(none, "y")
		w.Is(err, fairlock.ErrInvalid)
		_, err = a.TryLock(none, "y")
		w.Is(err, fairlock.ErrInvalid)
		_, err = a.Inspect(none, "x")
		w.Is(err, fairlock.ErrInvalid)
		for _, err = range a.List(none) {
			w.Is(err, fairlock.ErrInvalid)
		}
		for _, err = range a.Overhear(none) {
			w.Is(err, fairlock.ErrInvalid)
		}
		w.Is(a.Do(none, "y", func(context.Context, *fairlock.Lease) error { return nil }), fairlock.ErrInvalid)
		w.Is(a.Do(w.Context(), "y", nil), fairlock.ErrInvalid)
		w.Is(a.ForceUnlock(none, "x"), fairlock.ErrInvalid)
		w.Is(a.Shutdown(none), fairlock.ErrInvalid)
		w.Is(lease.Extend(none, time.Second), fairlock.ErrInvalid)
		w.NoError(lease.Err())
		w.NoError(lease.Unlock(none))
		w.That(w.admin.Exists(w.Context(), w.Record("x"), w.Record("y")).Val() == 0, "something is held")
		w.Is(lease.Unlock(none), fairlock.ErrNotHeld)
	}},
}

// shutdownStops checks that a Shutdown of a stops the calls of this goroutine, which is in no Do.
func (w *World) shutdownStops(a, b Locker) {
	w.Helper()
	other := w.Lock(b, "y")
	holds := w.Lock(a, "z")
	done := make(chan error, 1)
	go func() { done <- a.Shutdown(w.Context()) }()
	w.Until("it shuts down", func() bool {
		_, err := a.TryLock(w.Context(), "y")
		return errors.Is(err, fairlock.ErrClosed)
	})
	w.Unlock(holds)
	w.NoError(<-done)
	w.Unlock(other)
}
