package redisson

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// micros is any time up to so many microseconds.
func micros(most int) time.Duration { return time.Duration(rand.IntN(most)) * time.Microsecond }

func TestCallsThatEndAtAnyInstantLeaveNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			for round := range 10 {
				a, b := locker(), locker()
				var calls sync.WaitGroup
				for i := range 8 {
					calls.Go(func() { w.comesAndGoes([]*Locker{a, b}[i%2]) })
				}
				if round%2 == 0 {
					time.Sleep(micros(20_000))
					w.must(a.Close())
				}
				calls.Wait()
				w.must(a.Close())
				w.must(b.Close())
				w.nothing()
			}
		})
	})
}

// comesAndGoes makes calls that end at any instant: with the lock or with a good reason.
func (w *world) comesAndGoes(l *Locker) {
	for range 6 {
		ctx, cancel := context.WithTimeout(context.Background(), micros(6_000))
		lease, err := l.Lock(ctx, "x", WaitAtMost(micros(5_000)))
		switch {
		case err == nil:
			time.Sleep(micros(300))
			err = lease.Unlock(context.Background())
		case errors.Is(err, ErrHeld), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
			err = nil
		}
		if err != nil {
			w.Errorf("%v", err)
		}
		cancel()
	}
}

func TestACallbackMayPanicEndItsGoroutineOrCloseTheLocker(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(), locker()
			lease := w.has(a, "x")
			for _, ends := range []func(int){
				func(int) { panic("in a callback") },
				func(int) { runtime.Goexit() },
				func(int) { w.must(b.Close()) },
			} {
				over := make(chan error, 1)
				go func() {
					err := errors.New("the call did not return")
					defer func() {
						_ = recover()
						over <- err
					}()
					_, err = b.Lock(w.Context(), "x", OnQueued(ends))
				}()
				if err := <-over; engine.IsClosed(b.closing) {
					w.is(err, ErrClosed)
				}
				w.until("the place is given back", func() bool { return w.inLine("x") == 0 })
			}
			w.unlock(lease)
			w.nothing()
		})
	})
}

// cutting is a hook that ends the goroutine of the next script, or of several in one write.
type cutting struct{ next atomic.Bool }

func (c *cutting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cutting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.cut(cmd)
		return next(ctx, cmd)
	}
}

func (c *cutting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		c.cut(all[0])
		return next(ctx, all)
	}
}

func (c *cutting) cut(first redis.Cmder) {
	if first.Name() == "evalsha" && c.next.CompareAndSwap(true, false) {
		runtime.Goexit()
	}
}

func TestACallGoesOnThoughAHookEndsTheGoroutineOfItsRequest(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			hook, l := new(cutting), locker()
			l.rdb.AddHook(hook)
			w.unlock(w.has(l, "y")) // the first contact
			over := make(chan error, 1)
			go func() {
				hook.next.Store(true)
				leases, err := l.LockAll(w.Context(), []string{"x", "y", "z"}) // each has a goroutine
				if err == nil {
					hook.next.Store(true)
					err = leases.Unlock(w.Context())
				}
				over <- err
			}()
			select {
			case err := <-over:
				w.must(err)
			case <-time.After(patience):
				w.Fatalf("a call does not end:\n%s", redistest.Dump(w.direct))
			}
			if hook.next.Load() {
				w.Error("no goroutine was ended")
			}
			w.nothing()
		})
	})
}

func TestNamesMayBeAnything(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(), locker()
			for _, name := range []string{
				"{", "}", "{}", "a{b", "a}b", "{a}b", "a\nb", "a\x00b", "ключ", ":", "a:b", " ", "\xff\xfe", "*", "[a-z]?",
				strings.Repeat("n", maxName),
			} {
				lease := w.has(a, name)
				_, err := b.TryLock(w.Context(), name)
				w.is(err, ErrHeld)
				queued := make(chan struct{})
				next := w.asks(w.Context(), b, name, OnQueued(func(int) { close(queued) }))
				<-queued
				w.unlock(lease)
				w.unlock(w.gets(next))
			}
			w.nothing()
		})
	})
}

func TestAReleaseIsNotMissedWhileAWaiterAsks(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(), locker()
			for range 40 {
				lease := w.has(a, "x")
				queued := make(chan struct{})
				next := w.asks(w.Context(), b, "x", OnQueued(func(int) { close(queued) }))
				<-queued
				time.Sleep(micros(500))
				released := time.Now()
				w.unlock(lease)
				w.unlock(w.gets(next))
				if took := time.Since(released); took > tryEvery/2 {
					w.Fatalf("it had to wait for the next try, %v", took)
				}
			}
			w.nothing()
		})
	})
}

// delayed is a way to the server on which the next script takes that long.
type delayed struct {
	by   time.Duration
	next *atomic.Bool
}

func (delayed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (delayed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d delayed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && d.next.CompareAndSwap(true, false) {
			time.Sleep(d.by)
		}
		return next(ctx, cmd)
	}
}

func TestALockThatIsGrantedTooLateToBeTrustedIsGivenBack(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	for kind, newLocker := range map[string]func(redis.UniversalClient, ...Option) *Locker{"fair": New, "plain": NewPlain} {
		rdb := redis.NewClient(&redis.Options{Addr: w.addr})
		const lease = 3 * time.Second
		slow := delayed{lease, new(atomic.Bool)}
		rdb.AddHook(slow)
		a, b := newLocker(rdb), w.locker(newLocker)
		w.unlock(w.has(a, kind)) // the server has the scripts now
		w.unlock(w.has(b, kind))
		slow.next.Store(true)
		_, err := a.TryLock(w.Context(), kind, LeaseFor(lease))
		w.is(err, ErrLost)
		for late := time.Now().Add(lease / 2); ; time.Sleep(5 * time.Millisecond) {
			free, err := b.TryLock(w.Context(), kind)
			if err == nil {
				w.unlock(free)
				break
			}
			if w.is(err, ErrHeld); time.Now().After(late) {
				w.Fatalf("%s: nobody has it, and it is held", kind)
			}
		}
		_ = a.Close()
		_ = rdb.Close()
	}
}

// about matches the scripts that are about that lock.
func about(name string) func(args []string) bool {
	return func(args []string) bool {
		return faultproxy.Command("EVALSHA")(args) && len(args) > 3 && args[3] == name
	}
}

// While the server is not prompt, each request has a goroutine of its own.
func TestARequestThatIsNeverAnsweredKeepsNoCallOfAClientWithoutTimeouts(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		proxy := faultproxy.New(w, w.addr)
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: -1, WriteTimeout: -1})
		holder, newLocker := locker(), New
		if holder.plain {
			newLocker = NewPlain
		}
		l := newLocker(rdb)
		lease := w.has(holder, "x")
		queued := make(chan struct{})
		next := w.asks(w.Context(), l, "x", OnQueued(func(int) { close(queued) }))
		<-queued

		late := proxy.Add(faultproxy.Rule{Match: about("late"), Times: 1, Action: faultproxy.HoldRequest()})
		_, err := l.Lock(w.Context(), "late", WaitAtMost(150*time.Millisecond))
		w.is(err, context.DeadlineExceeded)
		proxy.Add(faultproxy.Rule{Match: about("y"), Times: 1, Action: faultproxy.SwallowReplySilently()})
		tried := make(chan error, 1)
		go func() {
			_, err := l.TryLock(w.Context(), "y")
			tried <- err
		}()
		hung := proxy.Add(faultproxy.Rule{
			Match: func(args []string) bool { return about("x")(args) && !refreshes(args) },
			Times: 1, Action: faultproxy.HoldRequest(),
		})
		w.unlock(lease)
		hung.WaitHit(w, 1, patience)
		lease = w.gets(next)
		select {
		case err := <-tried:
			w.is(err, lua.ErrKept)
		case <-time.After(patience):
			w.Error("a try does not end")
		}
		w.until("what the try has is given back", func() bool { return w.direct.Exists(w.Context(), "y").Val() == 0 })
		w.unlock(lease)
		hung.Release() // the late requests find that their owners have left
		late.Release()
		hung.WaitExecuted(w, 1, patience)
		late.WaitExecuted(w, 1, patience)
		w.nothing()
		proxy.CutAll()
		w.must(l.Close())
		w.must(rdb.Close())
	})
}

// behind is a Locker of the other's kind whose requests go through a proxy, once each.
func (w *world) behind(other *Locker, options ...Option) (*Locker, *faultproxy.Proxy) {
	w.Helper()
	proxy := faultproxy.New(w, w.addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
	l := newLocker(rdb, other.plain, options)
	w.Cleanup(func() { _ = l.Close(); _ = rdb.Close() })
	return l, proxy
}

func TestAWaitThatEndsSaysWhyItsLastRequestFailed(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		holder := locker()
		l, proxy := w.behind(holder)
		for name, option := range map[string]LockOption{"its time is up": WaitAtMost(3 * time.Second), "its context ends": WaitAtMost(time.Hour)} {
			lease := w.has(holder, name)
			ctx, cancel := context.WithCancel(w.Context())
			queued := make(chan struct{})
			waits := w.asks(ctx, l, name, option, OnQueued(func(int) { close(queued) }))
			<-queued
			lost := proxy.Add(faultproxy.Rule{Match: about(name), Action: faultproxy.SwallowReply()})
			w.unlock(lease)              // it asks for the free lock, in vain
			lost.WaitHit(w, 3, patience) // no more than two are under way at once
			if name == "its context ends" {
				cancel()
			}
			err := w.ends(waits).err
			var held *HeldError
			var waited *WaitError
			var why error
			switch {
			case errors.As(err, &held):
				why = held.Failure
			case errors.As(err, &waited):
				why = waited.Failure
			}
			if why == nil || !strings.Contains(err.Error(), "the last request failed: "+why.Error()) || (waited != nil) != (ctx.Err() != nil) {
				w.Errorf("%s: %v", name, err)
			}
			lost.Remove()
			cancel()
		}
	})
}

func TestAWaitThatEndsSaysWhyTheRequestsOfOthersForItFailed(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		holder := locker()
		l, proxy := w.behind(holder, WithWaiterTimeout(900*time.Millisecond))
		lease := w.has(holder, "x", LeaseFor(map[bool]time.Duration{false: time.Minute, true: 5 * time.Second}[holder.plain]))
		var waits [2]<-chan outcome
		ctx, cancel := context.WithCancel(w.Context())
		for i := range waits {
			queued := make(chan struct{})
			waits[i] = w.asks(ctx, l, "x", OnQueued(func(int) { close(queued) }))
			<-queued
		}
		lost := proxy.Add(faultproxy.Rule{Match: about("x"), Action: faultproxy.SwallowReply()})
		lost.WaitHit(w, 3, patience)
		cancel()
		for _, end := range waits {
			var waited *WaitError
			if err := w.ends(end).err; !errors.As(err, &waited) || waited.Failure == nil {
				w.Errorf("%v", err)
			}
		}
		lost.Remove()
		runtime.KeepAlive(lease) // else it might be unlocked early
	})
}

func TestAListAndTheCloseAfterItEndThoughTheServerIsSilentAndTheClientHasNoTimeouts(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	proxy := faultproxy.New(w, w.addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	l := New(rdb)
	_, err := l.Inspect(w.Context(), "x")
	w.must(err)
	proxy.Add(faultproxy.Rule{Match: faultproxy.Command("SCAN"), Action: faultproxy.SwallowReplySilently()})
	for _, err := range l.List(context.Background()) {
		w.is(err, lua.ErrKept)
	}
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
	defer cancel()
	for _, err := range l.List(ctx) {
		w.is(err, context.DeadlineExceeded)
	}
	w.must(l.Close())
	proxy.CutAll()
	w.must(rdb.Close())
}

func TestAClientThatHasTheIDOfOneThatWasClosedHasNoneOfItsLocks(t *testing.T) {
	onBoth(t, func(w *world) {
		rdb := redis.NewClient(&redis.Options{Addr: w.addr})
		w.Cleanup(func() { _ = rdb.Close() })
		id := WithID("4d1a2c4e-9f0b-4a39-8c57-0f4f3a1f6d10")
		first, second := New(rdb, id), New(rdb, id)
		w.Cleanup(func() { _ = second.Close() })
		lease := w.has(first, "x")
		w.must(first.Close()) // what is held stays held
		_, err := second.TryLock(w.Context(), "x")
		w.is(err, ErrHeld)
		w.unlock(lease)
		w.unlock(w.has(second, "x"))
	})
}
