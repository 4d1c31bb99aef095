package conformance

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/nosy"
)

// These tests are about contexts that package context does not know, or that keep no contract.
var oddContextTests = []test{
	{"a context of the user's is asked in its call's goroutine alone", func(w *World) {
		held := w.Lock(w.Locker(), "y")
		for _, call := range []func(Locker, context.Context, ...fairlock.LockOption) error{
			func(l Locker, ctx context.Context, options ...fairlock.LockOption) error {
				_, err := l.Lock(ctx, "y", options...)
				return err
			},
			func(l Locker, ctx context.Context, options ...fairlock.LockOption) error {
				_, err := l.LockAll(ctx, []string{"x", "y"}, options...)
				return err
			},
		} {
			for _, bound := range [][]fairlock.LockOption{nil, {fairlock.WaitAtMost(time.Minute)}} {
				ctx := newAlien(w)
				var once sync.Once
				ends := fairlock.OnQueued(func(int) { once.Do(func() { close(ctx.done) }) })
				w.Is(call(w.Locker(), ctx, append(bound, ends)...), context.Canceled)
			}
			w.That(call(w.Locker(), newAlien(w), fairlock.WaitAtMost(50*time.Millisecond)) != nil, "it was not held")
		}
		a, b := w.Locker(), w.Locker()
		_, err := a.LockAll(newAlien(w), []string{"x", "y"}, fairlock.OnQueued(func(int) {
			w.NoError(b.ForceUnlock(w.Context(), "x")) // which is a's
		}))
		w.Is(err, fairlock.ErrLost)
		w.Unlock(held)
		ctx := newAlien(w)
		w.Is(w.Locker().Do(ctx, "x", func(inner context.Context, _ *fairlock.Lease) error {
			close(ctx.done)
			w.closes(inner.Done(), "the context in Do")
			return inner.Err()
		}), context.Canceled)
	}},
	{"a call that its context ends has the error of that context, whatever it waits for", func(w *World) {
		held := w.Lock(w.Locker(), "y")
		for _, names := range [][]string{{"y"}, {"x", "y"}} {
			ctx := newAlien(w)
			ctx.err = context.DeadlineExceeded
			var once sync.Once
			_, err := w.Locker().LockAll(ctx, names, fairlock.OnQueued(func(int) { once.Do(func() { close(ctx.done) }) }))
			w.Is(err, context.DeadlineExceeded)
			w.That(!errors.Is(err, context.Canceled), "%v", err)
		}
		w.Unlock(held)
		h := &stuckHook{stuck: make(chan struct{})}
		a := w.hookedLocker(h)
		outer := w.Lock(a, "x")
		ctx := newAlien(w)
		ctx.Context, ctx.err = outer.Context(), context.DeadlineExceeded
		once := sync.OnceFunc(func() { close(ctx.done) })
		h.next.Store(&once)
		_, err := a.Lock(ctx, "x", fairlock.LeaseFor(3*w.Lease), fairlock.WaitAtMost(time.Minute))
		close(h.stuck)
		w.Is(err, context.DeadlineExceeded)
		w.That(!errors.Is(err, context.Canceled) && !errors.As(err, new(*fairlock.WaitError)), "%v", err)
		w.Unlock(outer)
	}},
	{"a context that is done and has no error is no success", func(w *World) {
		a := w.Locker()
		held := w.Lock(a, "x", fairlock.LeaseFor(20*w.Lease)) // nobody renews it after the Shutdown
		ctx := newAlien(w)
		ctx.err = nil
		close(ctx.done)
		state, err := a.Inspect(ctx, "x")
		w.That(err != nil || state.Holder != nil, "Inspect: nobody has the lock, and no error")
		seen := 0
		for _, err := range a.List(ctx) {
			if seen++; err != nil {
				break
			}
		}
		w.That(seen > 0, "List: there is no lock, and no error")
		w.That(a.Shutdown(ctx) != nil, "Shutdown: no error, and a lock is held")
		w.firstCallsSayCanceled(ctx)
		b := w.Locker()
		if b.ForceUnlock(ctx, "x") == nil {
			state, err = b.Inspect(w.Context(), "x")
			w.NoError(err)
			w.That(state.Holder == nil, "ForceUnlock: no error, and %+v has the lock", state.Holder)
		} else {
			err := b.ForceUnlock(w.Context(), "x") // the first may have done it, and not heard of that
			w.That(err == nil || errors.Is(err, fairlock.ErrNotHeld), "ForceUnlock: %v", err)
		}
		runtime.KeepAlive(held)
		if lease, err := b.Lock(ctx, "x"); err == nil { // it may be granted before its end is looked at
			w.Unlock(lease)
		}
	}},
	{"a context that closes the Locker as it is asked keeps neither its call nor the Close", func(w *World) {
		for _, of := range []string{"Done", "Err", "Deadline"} {
			for n := range int32(8) {
				h := &nosy.Hook{Asked: func() {}}
				a := w.hookedLocker(h)
				w.Unlock(w.Lock(a, "y")) // the first contact
				h.Fails(1, 1)
				ctx := newUntimely(w.Context(), of, func() { w.NoError(a.Close()) }, n)
				w.bears("the try", func() {
					if lease, err := a.TryLock(ctx, "x"); err == nil {
						_ = lease.Unlock(w.Context())
					}
				})
				w.NoError(a.Close())
				w.Unlock(w.Lock(w.Locker(), "x"))
			}
		}
	}},
	{"an Unlock tells the outcome of one whose context panicked or ended the goroutine", func(w *World) {
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			a := w.Locker()
			lease := w.Lock(a, "x")
			w.bears("the Unlock", func() { _ = lease.Unlock(newUntimely(w.Context(), "Deadline", how, 0)) })
			w.NoError(lease.Unlock(w.Context()))
			w.Is(lease.Unlock(w.Context()), fairlock.ErrNotHeld)
			w.Unlock(w.Lock(a, "x"))
		}
	}},
	{"a call whose context is not done though its deadline has passed ends in its own time", func(w *World) {
		h := &stuckHook{stuck: make(chan struct{})}
		a := w.hookedLocker(h)
		ctx := overdue{w.Context()}
		tries := func(what string) {
			w.bears(what, func() {
				if lease, err := a.TryLock(ctx, "x"); err == nil {
					w.Unlock(lease)
				}
			})
		}
		tries("the first TryLock")
		outer := w.Lock(a, "z") // contact is made
		tries("a TryLock")
		held := w.Lock(w.Locker(), "x")
		for _, names := range [][]string{{"x"}, {"x", "y"}} {
			w.bears("a Lock of so long", func() {
				_, err := a.LockAll(ctx, names, fairlock.WaitAtMost(50*time.Millisecond))
				w.That(err != nil, "%v: there are two holders", names)
			})
		}
		w.Unlock(held)
		stays := func() {}
		h.next.Store(&stays)
		w.bears("a nested Lock of so long", func() {
			_, err := a.Lock(overdue{outer.Context()}, "z", fairlock.LeaseFor(3*w.Lease), fairlock.WaitAtMost(50*time.Millisecond))
			w.Is(err, context.DeadlineExceeded)
		})
		close(h.stuck)
		w.Unlock(outer)
	}},
	{"a Shutdown whose time is over says so as any call does", func(w *World) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		err := a.Shutdown(ctx)
		var named *fairlock.Error
		w.That(errors.As(err, &named) && named.Op == "shutdown", "%v", err)
		w.Is(err, context.Canceled)
		w.Unlock(lease)
	}},
}

// firstCallsSayCanceled has Lockers make contact under a context that is done. They make none.
func (w *World) firstCallsSayCanceled(ctx context.Context) {
	w.Helper()
	bounded := fairlock.WaitAtMost(time.Minute)
	gives := func(h held, err error) error { // it may be granted before its end is looked at
		_ = h.Unlock(w.Context())
		w.That(err == nil || errors.As(err, new(*fairlock.WaitError)), "it does not say how long it waited: %v", err)
		return err
	}
	for what, call := range map[string]func(Locker) error{
		"Lock":          func(l Locker) error { return gives(l.Lock(ctx, "y")) },
		"Lock, bounded": func(l Locker) error { return gives(l.Lock(ctx, "y", bounded)) },
		"TryLock":       func(l Locker) error { return gives(l.TryLock(ctx, "y")) },
		"LockAll":       func(l Locker) error { return gives(l.LockAll(ctx, []string{"y", "z"})) },
		"Inspect":       func(l Locker) error { _, err := l.Inspect(ctx, "x"); return err },
	} {
		for range 5 { // select takes what it likes
			if err := call(w.Locker()); err != nil && !errors.Is(err, context.Canceled) {
				w.Errorf("%s says %v", what, err)
			}
		}
	}
}

// alien is a context that package context does not know. What derives from it has a goroutine. But
// for values of the user's own it may be asked in the goroutine that made it alone: a panic in
// another one ends the process.
type alien struct {
	context.Context
	w    *World
	home string // that goroutine
	done chan struct{}
	err  error // when it is done
}

func newAlien(w *World) *alien {
	return &alien{w.Context(), w, goroutine(), make(chan struct{}), context.Canceled}
}

// goroutine names the calling goroutine.
func goroutine() string {
	name, _, _ := bytes.Cut(debug.Stack(), []byte(" ["))
	return string(name)
}

func (a *alien) asked(what string) {
	if in := goroutine(); in != a.home {
		a.w.Errorf("its %s is called in another goroutine:\n%s", what, debug.Stack())
	}
}

func (a *alien) Deadline() (time.Time, bool) {
	a.asked("Deadline")
	return a.Context.Deadline()
}

func (a *alien) Done() <-chan struct{} {
	a.asked("Done")
	return a.done
}

func (a *alien) Err() error {
	a.asked("Err")
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

// Value may be asked for the user's own keys anywhere. That of package context is an *int.
func (a *alien) Value(key any) any {
	if _, own := key.(*int); own {
		a.asked("Value")
	}
	return a.Context.Value(key)
}

// stuckHook keeps scripts, once next is set, which it calls for each first.
type stuckHook struct {
	next  atomic.Pointer[func()]
	stuck chan struct{} // closed when it lets them go
}

func (h *stuckHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *stuckHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f := h.next.Load(); f != nil && strings.HasPrefix(cmd.Name(), "eval") {
			(*f)()
			<-h.stuck
		}
		return next(ctx, cmd)
	}
}

func (h *stuckHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// overdue is a context that is not done though its deadline has passed.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }
