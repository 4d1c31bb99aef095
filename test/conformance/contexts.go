package conformance

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// deep counts how deep the stack is as a value is asked for.
type deep struct {
	context.Context
	frames *int
}

func (d deep) Value(key any) any {
	*d.frames = runtime.Callers(0, make([]uintptr, 1000))
	return d.Context.Value(key)
}

// held is a Lease, or Leases.
type held interface {
	Context() context.Context
	Unlock(ctx context.Context) error
}

// ofOne are Leases that are passed on with the context of the first.
type ofOne struct{ *fairlock.Leases }

func (o ofOne) Context() context.Context { return o.Lease(o.Names()[0]).Context() }

// handOverHand has locks one after the other, each with the context of the one before. A value must
// not be looked for ever deeper.
func (w *World) handOverHand(lock func(ctx context.Context, n string) (held, error)) {
	w.Helper()
	frames := 0
	ctx := context.Context(deep{w.Context(), &frames})
	var before held
	first := 0
	for i := range 40 {
		next, err := lock(ctx, strconv.Itoa(i%2))
		w.NoError(err)
		if before != nil {
			w.NoError(before.Unlock(w.Context()))
		}
		before, ctx = next, next.Context()
		ctx.Value(deep{})
		if i == 0 {
			first = frames
		}
	}
	if frames > first+8 {
		w.Errorf("a value is looked for %d frames deep, at first %d", frames, first)
	}
	w.NoError(before.Unlock(w.Context()))
}

// These tests are about contexts of the user's own types, which are user code, too.
var contextTests = []test{
	{"a context of the user's may ask a Lease for anything", func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		ctx := curious{w.Context(), func() { _, _ = lease.Err(), lease.Depth() }}
		w.NoError(a.Do(ctx, "y", func(ctx context.Context, _ *fairlock.Lease) error {
			nested := w.LockIn(ctx, a, "y")
			w.Unlock(nested)
			return a.ForceUnlock(ctx, "x")
		}))
		waits := w.Lock(a, "z")
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := a.Lock(curious{short, ctx.ask}, "z")
		w.Is(err, context.DeadlineExceeded)
		w.Unlock(waits)
	}},
	{"a context of the user's may take a lock as it is asked, at the first contact, too", func(w *World) {
		for _, of := range []string{"Done", "Err", "Deadline", "Value"} {
			for n := range int32(8) {
				for _, ends := range []bool{false, true} {
					a := w.Locker()
					ctx, cancel := context.WithCancel(w.Context())
					if ends {
						cancel()
					}
					var lease *fairlock.Lease
					var err error
					w.bears("a call whose context takes a lock", func() {
						lease, err = a.Lock(newUntimely(ctx, of, func() { w.Unlock(w.Lock(a, "y")) }, n), "x")
					})
					if ends {
						w.Is(err, context.Canceled)
					} else {
						w.NoError(err)
						w.Unlock(lease)
					}
					cancel()
				}
			}
		}
	}},
	{"locks that are had hand over hand, each with the context of the one before, keep nothing of those before", func(w *World) {
		a := w.Locker()
		w.handOverHand(func(ctx context.Context, n string) (held, error) { return a.Lock(ctx, "x"+n) })
		w.handOverHand(func(ctx context.Context, _ string) (held, error) { return a.Lock(ctx, "x") }) // nested
		w.handOverHand(func(ctx context.Context, n string) (held, error) { return a.LockAll(ctx, []string{"x" + n}) })
		w.handOverHand(func(ctx context.Context, n string) (held, error) { return a.LockAll(ctx, []string{"x" + n, "y" + n}) })
		w.handOverHand(func(ctx context.Context, n string) (held, error) { return a.LockAll(ctx, []string{"x" + n, "z"}) })
		w.handOverHand(func(ctx context.Context, n string) (held, error) {
			leases, err := a.LockAll(ctx, []string{"x" + n})
			return ofOne{leases}, err
		})
	}},
	{"a loss under a Do asks its context nothing", func(w *World) {
		ctx := newHostile(w.Context(), func() { w.Errorf("it is asked:\n%s", debug.Stack()) })
		w.Is(w.Locker().Do(ctx, "x", func(inner context.Context, _ *fairlock.Lease) error {
			ctx.armed.Store(true)
			w.NoError(w.Locker().ForceUnlock(w.Context(), "x"))
			w.closes(inner.Done(), "the context in Do")
			w.Is(context.Cause(inner), fairlock.ErrLost)
			ctx.armed.Store(false)
			return nil
		}), fairlock.ErrLost)
	}},
	{"a call whose context panics or ends the goroutine as it is asked leaves nothing", func(w *World) {
		for _, bound := range [][]fairlock.LockOption{nil, {fairlock.WaitAtMost(time.Minute)}} {
			for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
				for _, of := range []string{"Done", "Err", "Deadline", "Value"} {
					for n := range int32(8) {
						w.leavesNothing(newUntimely(w.Context(), of, how, n), n, bound)
					}
				}
			}
		}
	}},
	{"calls whose contexts panic or end the goroutine cost other calls nothing", func(w *World) {
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			a := w.Locker()
			for n := range int32(4) {
				ctx := newUntimely(w.Context(), "Done", how, n/2)
				w.bears("the call", func() {
					if lease, err := a.Lock(ctx, "x"); err == nil { // it is asked less often where no caller sends
						w.Unlock(lease)
					}
				})
			}
			lease, err := a.Lock(w.Context(), "x", fairlock.WaitAtMost(20*w.Lease))
			w.NoError(err)
			w.Unlock(lease)
		}
	}},
	{"a look whose context panics or ends the goroutine as it is asked costs other calls nothing", func(w *World) {
		looks := map[string]func(context.Context, Locker){
			"Inspect": func(ctx context.Context, l Locker) { _, _ = l.Inspect(ctx, "x") },
			"List": func(ctx context.Context, l Locker) {
				for _, err := range l.List(ctx) {
					_ = err
				}
			},
			"ForceUnlock": func(ctx context.Context, l Locker) { _ = l.ForceUnlock(ctx, "z") },
		}
		held := w.Lock(w.Locker(), "x")
		for what, look := range looks {
			for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
				for n := range int32(5) {
					a := w.Locker() // the look makes the first contact
					ctx := newUntimely(w.Context(), "Done", how, n)
					w.bears(what, func() { look(ctx, a) })
					_, err := a.TryLock(w.Context(), "x")
					w.Is(err, fairlock.ErrHeld)
					w.NoError(a.Close())
				}
			}
		}
		w.Unlock(held)
	}},
	{"a lock is given back at once though the context of its Do panics or ends the goroutine then", func(w *World) {
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			a, b := w.Locker(), w.Locker()
			for _, waits := range []bool{false, true} {
				var held *fairlock.Lease
				if waits {
					held = w.Lock(b, "x")
				}
				ctx := newHostile(w.Context(), how)
				ended := make(chan struct{})
				queued := fairlock.OnQueued(func(int) { w.waiting.Add(1) })
				go func() {
					defer close(ended)
					defer func() { _ = recover() }()
					_ = a.Do(ctx, "x", func(context.Context, *fairlock.Lease) error {
						if waits {
							w.waiting.Add(-1)
						}
						ctx.armed.Store(true)
						return nil
					}, queued)
				}()
				if waits { // so that the call has a run of turns, with a second one
					w.Until("it waits", func() bool { return w.InLine("x") == 1 })
					next := w.Queue(w.Context(), a, "x", 2)
					w.Unlock(held)
					w.Unlock(w.Take(next))
				}
				w.closes(ended, "Do")
				w.Until("its context was asked", ctx.asked.Load)
				lease, err := b.TryLock(w.Context(), "x")
				w.NoError(err)
				w.Unlock(lease)
			}
			ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
			w.NoError(a.Shutdown(ctx))
			cancel()
		}
	}},
	{"several locks are given back though the context of their DoAll or Unlock panics then, and the process lives", func(w *World) {
		names := []string{"x", "y", "z"}
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			for _, unlocks := range []func(a Locker, ctx hostile){
				func(a Locker, ctx hostile) {
					_ = a.DoAll(ctx, names, func(context.Context, *fairlock.Leases) error {
						ctx.armed.Store(true)
						return nil
					})
				},
				func(a Locker, ctx hostile) {
					leases, err := a.LockAll(w.Context(), names)
					if err == nil {
						ctx.armed.Store(true)
						err = leases.Unlock(ctx)
					}
					w.Errorf("Unlock returned: %v", err)
				},
			} {
				a, ctx := w.Locker(), newHostile(w.Context(), how)
				w.bears("the call", func() { unlocks(a, ctx) })
				w.That(ctx.asked.Load(), "its context was not asked")
				leases, err := w.Locker().LockAll(w.Context(), names, fairlock.WaitAtMost(0))
				w.NoError(err)
				w.NoError(leases.Unlock(w.Context()))
				w.NoError(a.Close())
			}
		}
	}},
	{"a context of the user's that never answers keeps no other one alive", func(w *World) {
		a := w.Locker()
		never, asked := make(chan struct{}), new(atomic.Bool)
		ctx := curious{w.Context(), func() {
			if asked.Load() {
				<-never
			}
		}}
		in, out := make(chan context.Context), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- a.Do(ctx, "x", func(ctx context.Context, _ *fairlock.Lease) error {
				in <- ctx
				<-out
				return nil
			}, fairlock.LeaseFor(w.Lease))
		}()
		inner := <-in
		other := w.Lock(a, "y", fairlock.LeaseFor(w.Lease+100*time.Millisecond))
		asked.Store(true)
		w.closes(inner.Done(), "the context in Do")
		w.closes(other.Done(), "the other one")
		close(never)
		close(out)
		w.Is(<-done, fairlock.ErrLost)
	}},
}

// curious is a context that runs a function when asked for a value.
type curious struct {
	context.Context
	ask func()
}

func (c curious) Value(key any) any {
	c.ask()
	return c.Context.Value(key)
}

// leavesNothing fails unless a lock is free soon after a call for it under ctx, which is untimely
// the nth time that it is asked.
func (w *World) leavesNothing(ctx untimely, n int32, bound []fairlock.LockOption) {
	w.Helper()
	a, b := w.Locker(lasting), w.Locker(lasting)
	w.Unlock(w.Lock(b, "y")) // the first contact may take long
	w.bears("the call", func() {
		if lease, err := a.Lock(ctx, "x", bound...); err == nil {
			err = lease.Unlock(w.Context())
			w.NoError(err)
		}
	})
	w.That(n > 0 || ctx.acted(), "its %s was not asked", ctx.of)
	began := time.Now()
	lease, err := b.Lock(w.Context(), "x", fairlock.WaitAtMost(longBefore))
	w.NoError(err)
	took := time.Since(began)
	w.That(!w.Fake || took < time.Second, "the lock was free only after %v", took)
	w.Unlock(lease)
	if w.Fake { // a call that was left behind has the lock with its next heartbeat
		w.Pass(10 * time.Second)
		w.Unlock(w.Lock(b, "x", fairlock.WaitAtMost(0)))
	}
	w.NoError(a.Close())
}

// bears makes a call that may panic or end its goroutine, and returns when it is over.
func (w *World) bears(what string, call func()) {
	w.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		call()
	}()
	w.closes(ended, what)
}

// untimely is a context one of whose methods does what how does, after it has been called so often.
type untimely struct {
	context.Context
	of   string
	how  func()
	left *atomic.Int32
}

func newUntimely(ctx context.Context, of string, how func(), after int32) untimely {
	u := untimely{ctx, of, how, new(atomic.Int32)}
	u.left.Store(after)
	return u
}

func (u untimely) asked(what string) {
	if what == u.of && u.left.Add(-1) == -1 {
		u.how()
	}
}

// acted reports whether how has run.
func (u untimely) acted() bool { return u.left.Load() < 0 }

func (u untimely) Done() <-chan struct{} {
	u.asked("Done")
	return u.Context.Done()
}

func (u untimely) Err() error {
	u.asked("Err")
	return u.Context.Err()
}

func (u untimely) Deadline() (time.Time, bool) {
	u.asked("Deadline")
	return u.Context.Deadline()
}

func (u untimely) Value(key any) any {
	u.asked("Value")
	return u.Context.Value(key)
}

// hostile is a context whose methods do what how does, once it is armed.
type hostile struct {
	context.Context
	how          func()
	armed, asked *atomic.Bool
}

func newHostile(ctx context.Context, how func()) hostile {
	return hostile{ctx, how, new(atomic.Bool), new(atomic.Bool)}
}

func (h hostile) acts() {
	if h.armed.Load() {
		h.asked.Store(true)
		h.how()
	}
}

func (h hostile) Value(key any) any {
	h.acts()
	return h.Context.Value(key)
}

func (h hostile) Done() <-chan struct{} {
	h.acts()
	return h.Context.Done()
}

func (h hostile) Deadline() (time.Time, bool) {
	h.acts()
	return h.Context.Deadline()
}
