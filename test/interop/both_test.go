package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/java"
)

var kinds = []java.Kind{java.Fair, java.Plain}

// each runs a test in both kinds of locks with the JVM of each version. All have one server.
func each(t *testing.T, test func(w *world, j *java.JVM, kind java.Kind)) {
	t.Helper()
	all := newWorld(t)
	for _, version := range []string{java.V3, java.V4} {
		t.Run(version, func(t *testing.T) {
			j := all.in(t).jvm(java.Config{Version: version, Watchdog: brief, FairWait: javaWait})
			for _, kind := range kinds {
				t.Run(string(kind), func(t *testing.T) {
					w := all.in(t)
					test(w, j, kind)
					w.nothing()
				})
			}
		})
	}
}

var names = []string{"x", "a{b}c", "ключ:1", "with a space", "{whole}"}

func TestGoWaitsForJavaAndJavaForGoWhateverTheName(t *testing.T) {
	each(t, func(w *world, j *java.JVM, kind java.Kind) {
		l := w.locker(kind, redisson.WithWatchdogTimeout(brief), redisson.WithFairLockWaitTimeout(javaWait))
		holder, waiter := j.Thread("holder"), j.Thread("waiter")
		for _, name := range names {
			w.returned(holder.Lock(kind, name))
			if _, err := l.TryLock(w.Context(), name); !errors.Is(err, redisson.ErrHeld) {
				w.Fatalf("%s: %v", name, err)
			}
			next := w.asks(w.Context(), l, name)
			w.inLine(kind, name)
			w.returned(holder.Unlock(kind, name))
			lease := w.gets(next)
			w.answers(holder.IsLocked(kind, name), "true")
			w.answers(holder.TryLock(kind, name), "false")
			last := waiter.Lock(kind, name)
			w.inLine(kind, name)
			w.waits(last)
			w.unlock(lease)
			w.returned(last)
			w.returned(waiter.Unlock(kind, name))
		}
	})
}

// inLine waits until a call stands in line, or, where there is none, is told of releases.
func (w *world) inLine(kind java.Kind, name string) {
	w.Helper()
	if kind == java.Fair {
		w.line(name, 1)
	}
	w.subscribed(name, 1)
}

func TestCountsOfBothAreTheirsAndPartialUnlocksKeepTheLock(t *testing.T) {
	each(t, func(w *world, j *java.JVM, kind java.Kind) {
		l := w.locker(kind)
		holder, other := j.Thread("holder"), j.Thread("other")
		w.returned(holder.Lock(kind, "x"))
		w.returned(holder.Lock(kind, "x"))
		w.answers(holder.Count(kind, "x"), "2")
		state, err := l.Inspect(w.Context(), "x")
		w.must(err)
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		owner, err := holder.Owner().Text(ctx)
		w.must(err)
		if state.Holder == nil || state.Holder.Owner != owner || state.Holder.Depth != 2 {
			w.Fatalf("%+v", state.Holder)
		}
		next := w.asks(w.Context(), l, "x")
		w.inLine(kind, "x")
		w.returned(holder.Unlock(kind, "x"))
		select {
		case <-next:
			w.Fatal("a partial unlock gave the lock away")
		default:
		}
		w.returned(holder.Unlock(kind, "x"))
		lease := w.gets(next)
		inner, err := l.Lock(lease.Context(), "x")
		w.must(err)
		last := other.Lock(kind, "x")
		w.inLine(kind, "x")
		w.until("the count is 2", func() bool { return w.direct.HGet(ctx, "x", lease.Owner()).Val() == "2" })
		w.unlock(inner)
		w.waits(last)
		w.answers(holder.Holds(kind, "x"), "false")
		w.answers(holder.Count(kind, "x"), "0")
		w.unlock(lease)
		w.returned(last)
		w.returned(other.Unlock(kind, "x"))
	})
}

func TestEachForcesTheLocksOfTheOther(t *testing.T) {
	each(t, func(w *world, j *java.JVM, kind java.Kind) {
		l := w.locker(kind, redisson.WithWatchdogTimeout(brief))
		a, b := j.Thread("a"), j.Thread("b")
		lease := w.has(l, "x")
		next := a.Lock(kind, "x")
		w.inLine(kind, "x")
		w.answers(b.ForceUnlock(kind, "x"), "true")
		w.returned(next)
		select {
		case <-lease.Done():
		case <-time.After(patience):
			w.Fatal("the holder in Go does not hear of it")
		}
		if err := lease.Unlock(w.Context()); !errors.Is(err, redisson.ErrLost) {
			w.Fatal(err)
		}
		then := w.asks(w.Context(), l, "x")
		w.inLine(kind, "x")
		w.must(l.ForceUnlock(w.Context(), "x"))
		w.unlock(w.gets(then))
	})
}

func TestTriesThatWaitEndInTimeAndLeaveTheLine(t *testing.T) {
	each(t, func(w *world, j *java.JVM, kind java.Kind) {
		l := w.locker(kind, redisson.WithFairLockWaitTimeout(javaWait))
		a, b := j.Thread("a"), j.Thread("b")
		lease := w.has(l, "x")
		w.answers(a.TryLockWait(kind, "x", 200*time.Millisecond), "false")
		soon := a.TryLockWait(kind, "x", patience)
		w.inLine(kind, "x")
		w.unlock(lease)
		w.answers(soon, "true")
		if _, err := l.Lock(w.Context(), "x", redisson.WaitAtMost(1500*time.Millisecond)); !errors.Is(err, redisson.ErrHeld) {
			w.Fatal(err)
		}
		next := w.asks(w.Context(), l, "x", redisson.WaitAtMost(patience))
		w.inLine(kind, "x")
		w.returned(a.Unlock(kind, "x"))
		lease = w.gets(next)
		w.unlock(lease)
		w.answers(b.TryLockLease(kind, "x", 0, patience), "true")
		w.returned(b.Unlock(kind, "x"))
	})
}

func TestAHoldIsRenewedForJavaToSee(t *testing.T) {
	each(t, func(w *world, j *java.JVM, kind java.Kind) {
		const watchdog = 4 * time.Second
		l := w.locker(kind, redisson.WithWatchdogTimeout(watchdog))
		lease := w.has(l, "x")
		next := j.Thread("a").Lock(kind, "x")
		w.inLine(kind, "x")
		first := lease.Deadline()
		w.until("it has outlived its first end", func() bool { return lease.Deadline().After(first.Add(watchdog)) })
		w.waits(next)
		w.unlock(lease)
		w.returned(next)
		w.returned(j.Thread("a").Unlock(kind, "x"))
	})
}

func TestNamesAreMappedAsJavaMapsThem(t *testing.T) {
	w := newWorld(t)
	j := w.jvm(java.Config{Prefix: "app:"})
	l := w.locker(java.Fair, redisson.WithNameMapper(prefix("app:")))
	w.returned(j.Thread("a").Lock(java.Fair, "x"))
	w.must(w.direct.HSet(w.Context(), "other", "11111111-1111-4111-8111-111111111111:1", 1).Err())
	next := w.asks(w.Context(), l, "x")
	w.line("app:x", 1)
	for state, err := range l.List(w.Context()) {
		w.must(err)
		if state.Name != "x" {
			w.Errorf("the list has %q", state.Name)
		}
	}
	w.returned(j.Thread("a").Unlock(java.Fair, "x"))
	w.unlock(w.gets(next))
	w.must(w.direct.Del(w.Context(), "other").Err())
	w.nothing()
}

type prefix string

func (p prefix) Map(name string) string     { return string(p) + name }
func (p prefix) Unmap(mapped string) string { return strings.TrimPrefix(mapped, string(p)) }

func TestGoAndJavaOfBothVersionsAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	w := newWorld(t)
	jvms := []*java.JVM{w.jvm(java.Config{Version: java.V3}), w.jvm(java.Config{Version: java.V4})}
	lockers := []*redisson.Locker{w.locker(java.Fair), w.locker(java.Fair)}
	for round := range 5 {
		lease := w.has(lockers[0], "x")
		served := make(chan int, 12)
		ends := make([]<-chan error, 12)
		for i := range ends {
			ends[i] = w.turn(i, served, jvms[i/2%2], lockers[i/2%2])
			w.line("x", int64(i+1))
		}
		w.unlock(lease)
		for i, end := range ends {
			w.must(<-end)
			if got := <-served; got != i {
				w.Fatalf("round %d: %d was served in the place of %d", round, got, i)
			}
		}
	}
	w.nothing()
}

// turn waits for the lock, in Java if i is even, and unlocks it.
func (w *world) turn(i int, served chan<- int, j *java.JVM, l *redisson.Locker) <-chan error {
	end := make(chan error, 1)
	if i%2 == 1 {
		go func() {
			lease, err := l.Lock(w.Context(), "x")
			served <- i
			end <- errors.Join(err, lease.Unlock(context.Background()))
		}()
		return end
	}
	thread := j.Thread(fmt.Sprint(i))
	locked := thread.Lock(java.Fair, "x")
	go func() {
		err := locked.Err(w.Context())
		served <- i
		end <- errors.Join(err, thread.Unlock(java.Fair, "x").Err(context.Background()))
	}()
	return end
}

func TestATryInSecondsBehindGoIsToldThatItWasDropped(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	l := w.locker(java.Fair, mine()...)
	lease := w.has(l, "x", redisson.LeaseFor(time.Hour))
	next := w.asks(w.Context(), l, "x", redisson.LeaseFor(time.Hour))
	w.line("x", 1)
	try := a.TryLockSeconds(java.Fair, "x", 500) // its deadline is 500 ms after Go's
	w.line("x", 2)
	w.until("Java listens", func() bool { return w.hear("x", 1) == 1 })
	w.unlock(lease)
	lease = w.gets(next) // and Java's deadline is in 500 ms or less
	w.until("it has passed", func() bool {
		last := w.direct.ZRangeWithScores(w.Context(), "redisson_lock_timeout:{x}", 0, -1).Val()
		if len(last) != 1 {
			return false
		}
		until := time.Until(time.UnixMilli(int64(last[0].Score)))
		return until < 0 || until > time.Minute // Java was slow to ask, and stands in line anew
	})
	w.unlock(lease)
	w.answers(try, "true")
	w.returned(a.Unlock(java.Fair, "x"))
	w.nothing()
}
