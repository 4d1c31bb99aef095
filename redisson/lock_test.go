package redisson

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/test/redistest"
)

func TestAFreeLockIsHadAtOnceAndLeavesNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			l := locker()
			lease := w.has(l, "x")
			if lease.Token() != 0 || lease.Owner() == "" || lease.Err() != nil {
				w.Fatalf("%+v", lease)
			}
			record := w.direct.HGetAll(w.Context(), "x").Val()
			if len(record) != 1 || record[lease.Owner()] != "1" {
				w.Fatalf("the record is %v, the owner %s", record, lease.Owner())
			}
			if _, err := locker().TryLock(w.Context(), "x"); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), lease.Owner()) {
				w.Fatalf("%v", err)
			}
			w.unlock(lease)
			w.nothing()
		})
	})
}

func TestWaitersAreServedInOrderOverAllClients(t *testing.T) {
	onBoth(t, func(w *world) {
		all := []*Locker{w.fair(), w.fair(), w.fair()}
		lease := w.has(all[0], "x")
		var line []<-chan outcome
		for i := range 9 {
			line = append(line, w.queues(w.Context(), all[i%3], "x", int64(i+1)))
		}
		for i, next := range line {
			w.unlock(lease)
			lease = w.gets(next)
			for _, behind := range line[i+1:] {
				select {
				case o := <-behind:
					w.Fatalf("overtaken: %+v", o)
				default:
				}
			}
		}
		w.unlock(lease)
		w.nothing()
	})
}

func TestAPlainLockIsHadByOneAtATime(t *testing.T) {
	onBoth(t, func(w *world) {
		all := []*Locker{w.locker(NewPlain), w.locker(NewPlain)}
		lease := w.has(all[0], "x")
		var calls []<-chan outcome
		for i := range 8 {
			calls = append(calls, w.asks(w.Context(), all[i%2], "x"))
		}
		w.unlock(lease)
		inside := 0
		ends := make(chan struct{})
		for _, call := range calls {
			go func() {
				o := <-call
				if o.err == nil {
					_ = o.lease.Unlock(context.Background())
				}
				ends <- struct{}{}
			}()
		}
		for range calls {
			select {
			case <-ends:
				inside++
			case <-time.After(patience):
				w.Fatalf("%d of 8 were served:\n%s", inside, redistest.Dump(w.direct))
			}
		}
		w.nothing()
	})
}

func TestANestedCallSharesTheHoldAndTheRecordShowsTheCount(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			l := locker(WithWatchdogTimeout(6 * time.Second))
			w.must(l.Do(w.Context(), "x", func(ctx context.Context, outer *Lease) error {
				inner, err := l.Lock(ctx, "x")
				w.must(err)
				w.until("the count is 2", func() bool { return w.direct.HGet(ctx, "x", outer.Owner()).Val() == "2" })
				w.unlock(inner)
				return outer.Err()
			}))
			w.nothing()
		})
	})
}

func TestALockIsRenewedUntilItIsUnlocked(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			const timeout = 3 * time.Second
			lease := w.has(locker(WithWatchdogTimeout(timeout)), "x")
			until := lease.Deadline()
			w.until("it is renewed", func() bool { return lease.Deadline().After(until.Add(timeout)) })
			w.must(lease.Err())
			w.unlock(lease)
			w.nothing()
		})
	})
}

func TestAForcedHoldIsLost(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			lease := w.has(locker(WithWatchdogTimeout(4*time.Second)), "x")
			next := w.asks(w.Context(), locker(), "x")
			w.must(locker().ForceUnlock(w.Context(), "x"))
			w.unlock(w.gets(next))
			select {
			case <-lease.Done():
			case <-time.After(patience):
				w.Fatal("the holder does not learn of it")
			}
			w.is(lease.Unlock(w.Context()), ErrLost)
			w.is(locker().ForceUnlock(w.Context(), "x"), ErrNotHeld)
			w.nothing()
		})
	})
}

func TestACancelledHeadOfTheLineLetsTheNextHaveAFreeLock(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.fair(), w.fair()
		lease := w.has(a, "x")
		ctx, cancel := context.WithCancel(w.Context())
		first := w.queues(ctx, a, "x", 1)
		second := w.queues(w.Context(), b, "x", 2)
		cancel()
		w.is(w.ends(first).err, context.Canceled)
		w.until("it has left", func() bool { return w.inLine("x") == 1 })
		w.unlock(lease)
		w.unlock(w.gets(second))
		w.nothing()
	})
}

func TestTheTimeToWaitAndTheLengthOfTheLineAreBounded(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(), locker()
			lease := w.has(a, "x")
			_, err := b.Lock(w.Context(), "x", WaitAtMost(2500*time.Millisecond)) // a busy machine takes its time
			w.is(err, ErrHeld)
			_, err = b.Lock(w.Context(), "x", WaitAtMost(0))
			w.is(err, ErrHeld)
			w.until("the first call's place is given back", func() bool { return w.inLine("x") == 0 })
			waits := make(chan int, 1)
			next := w.asks(w.Context(), b, "x", OnQueued(func(n int) { waits <- n }))
			if n := <-waits; n != 1 {
				w.Fatalf("position %d", n)
			}
			_, err = b.Lock(w.Context(), "x", MaxWaiters(1))
			w.is(err, ErrQueueFull)
			w.unlock(lease)
			w.unlock(w.gets(next))
			w.nothing()
		})
	})
}

func TestCloseEndsWaitingCallsAndTheirPlaces(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.fair(), w.fair()
		lease := w.has(a, "x")
		next := w.queues(w.Context(), b, "x", 1)
		w.must(b.Close())
		w.is(w.ends(next).err, ErrClosed)
		if n := w.inLine("x"); n != 0 {
			w.Fatalf("%d are left in line", n)
		}
		_, err := b.Lock(w.Context(), "x")
		w.is(err, ErrClosed)
		w.unlock(lease)
		w.nothing()
	})
}

func TestWhatTheProtocolDoesNotCarryIsUnsupported(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			l := locker()
			for what, option := range map[string]LockOption{
				"WithOwner": engine.WithOwner("me"), "Note": engine.Note("n"),
				"WithReplicas": engine.WithReplicas(1, time.Second),
			} {
				_, err := l.TryLock(w.Context(), "x", option)
				if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), what) {
					w.Errorf("%s: %v", what, err)
				}
			}
			for _, err := range l.Overhear(w.Context()) {
				w.is(err, errors.ErrUnsupported)
			}
			w.nothing()
		})
	})
}

func TestOptionsAndNamesThatMakeNoSenseAreInvalid(t *testing.T) {
	onBoth(t, func(w *world) {
		for what, option := range map[string]Option{
			"an Option is nil": nil, "WithFairLockWaitTimeout:": WithFairLockWaitTimeout(0),
			"WithWaiterTimeout:": WithWaiterTimeout(time.Millisecond), "WithNameMapper:": WithNameMapper(nil),
			"WithID:": WithID("x"), "WithWatchdogTimeout:": WithWatchdogTimeout(1),
		} {
			_, err := w.fair(option).TryLock(w.Context(), "x")
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), what) {
				w.Errorf("%s: %v", what, err)
			}
		}
		for _, name := range []string{"", strings.Repeat("x", 600)} {
			_, err := w.fair().TryLock(w.Context(), name)
			w.is(err, ErrInvalid)
		}
	})
}

func TestSeveralLocksAreHadTogether(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(), locker()
			lease := w.has(a, "b")
			done := make(chan error, 1)
			go func() {
				done <- b.DoAll(w.Context(), []string{"c", "b", "a"}, func(_ context.Context, all *Leases) error { return all.Err() })
			}()
			w.until("it has the first", func() bool { return w.direct.Exists(w.Context(), "a").Val() == 1 })
			w.unlock(lease)
			w.must(<-done)
			w.nothing()
		})
	})
}

func TestInspectionAndListShowTheHolderAndTheLine(t *testing.T) {
	onBoth(t, func(w *world) {
		a := w.fair()
		lease := w.has(a, "a{b}c")
		next := w.queues(w.Context(), a, "a{b}c", 1)
		plain := w.has(w.locker(NewPlain), "y")
		w.must(w.direct.HSet(w.Context(), "no lock", "f", "1").Err())
		state, err := a.Inspect(w.Context(), "a{b}c")
		w.must(err)
		if state.Holder == nil || state.Holder.Owner != lease.Owner() || state.Waiting != 1 || len(state.Waiters) != 1 {
			w.Fatalf("%+v", state)
		}
		names := map[string]string{}
		for state, err := range a.List(w.Context()) {
			w.must(err)
			names[state.Name] = state.Holder.Owner
		}
		if len(names) != 2 || names["a{b}c"] != lease.Owner() || names["y"] != plain.Owner() {
			w.Fatalf("%v", names)
		}
		w.unlock(plain)
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.must(w.direct.Del(w.Context(), "no lock").Err())
		w.nothing()
	})
}

// stalled is a way to the server on which a SCAN says that it has come, and waits.
type stalled struct{ came, goes chan struct{} }

func (stalled) DialHook(next redis.DialHook) redis.DialHook { return next }

func (stalled) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s stalled) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "scan" {
			close(s.came)
			<-s.goes
			ctx = context.WithoutCancel(ctx)
		}
		return next(ctx, cmd)
	}
}

// The race detector judges.
func TestAListWhoseContextEndsDoesNotMindTheAnswerThatComesLater(t *testing.T) {
	onBoth(t, func(w *world) {
		rdb := redis.NewClient(&redis.Options{Addr: w.addr})
		slow := stalled{make(chan struct{}), make(chan struct{})}
		rdb.AddHook(slow)
		l := New(rdb)
		lease := w.has(l, "x")
		ctx, cancel := context.WithCancel(w.Context())
		go func() {
			<-slow.came
			cancel()
			<-ctx.Done()
			close(slow.goes)
		}()
		for _, err := range l.List(ctx) {
			w.is(err, context.Canceled)
		}
		w.unlock(lease)
		w.must(l.Close())
		w.must(rdb.Close())
	})
}

func TestAKeyWhoseNameIsNoLocksHidesNoOtherLock(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.fair()
		lease := w.has(l, "good")
		for _, name := range []string{"{" + strings.Repeat("n", maxName+1) + "}", "", "{}"} {
			w.must(w.direct.RPush(w.Context(), queues+":"+name, owner(4, 1)).Err())
		}
		w.must(w.direct.HSet(w.Context(), strings.Repeat("h", maxName+1), owner(4, 1), 1).Err())
		var names []string
		for state, err := range l.List(w.Context()) {
			w.must(err)
			names = append(names, state.Name)
		}
		if len(names) != 1 || names[0] != "good" {
			w.Errorf("%q", names)
		}
		w.unlock(lease)
	})
}

func TestALockOfAnotherTypeIsAnErrorAndStays(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			w.must(w.direct.Set(w.Context(), "x", "text", 0).Err())
			_, err := locker().Lock(w.Context(), "x")
			if !redis.HasErrorPrefix(err, "WRONGTYPE") && !strings.Contains(err.Error(), "WRONGTYPE") {
				w.Fatalf("%v", err)
			}
			if w.direct.Get(w.Context(), "x").Val() != "text" {
				w.Fatal("it was overwritten")
			}
		})
	})
}

func TestForceEndsNoHoldOfWhoHasTheLockNext(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			l := locker()
			for range 50 {
				lease := w.has(l, "x")
				next := w.asks(w.Context(), l, "x", LeaseFor(time.Minute))
				if !l.plain {
					w.until("it waits", func() bool { return w.inLine("x") == 1 })
				}
				w.must(l.ForceUnlock(w.Context(), "x"))
				<-lease.Done()
				w.unlock(w.gets(next))
			}
			w.must(w.direct.HSet(w.Context(), "junk", "a", 1, "b", 2).Err())
			w.must(l.ForceUnlock(w.Context(), "junk"))
			w.is(l.ForceUnlock(w.Context(), "junk"), ErrNotHeld)
		})
	})
}

func TestWhoMayNotSetTheEndOfALockLeavesNoneBehind(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.must(w.direct.Do(w.Context(), "ACL", "SETUSER", "default", "-pexpire").Err())
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		_, err := locker().TryLock(w.Context(), "x")
		if err == nil || !strings.Contains(err.Error(), "the user may not run") {
			w.Errorf("TryLock: %v", err)
		}
		if keys := w.direct.Keys(w.Context(), "*").Val(); len(keys) > 0 {
			w.Errorf("%q stay", keys)
		}
	})
	w.must(w.direct.Do(w.Context(), "ACL", "SETUSER", "default", "+pexpire").Err())
}
