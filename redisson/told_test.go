package redisson

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// owner is the name of one in Go or, with a UUID of version 4, in Java.
func owner(version, n int) string {
	return fmt.Sprintf("00000000-0000-%d000-8000-000000000000:%d", version, n)
}

// stands puts an owner at the end of a line, until its deadline. Nobody serves it.
func (w *world) stands(name, owner string, left time.Duration) {
	w.Helper()
	score := strconv.FormatInt(time.Now().Add(left).UnixMilli(), 10)
	w.must(w.direct.Do(w.Context(), "ZADD", prefixed(deadlines, name), score, owner).Err())
	w.must(w.direct.RPush(w.Context(), prefixed(queues, name), owner).Err())
}

// hears subscribes to what an owner is told.
func (w *world) hears(name, owner string) *redis.PubSub {
	w.Helper()
	hears := w.direct.Subscribe(w.Context(), prefixed(channels, name)+":"+owner)
	w.Cleanup(func() { _ = hears.Close() })
	_, err := hears.Receive(w.Context())
	w.must(err)
	return hears
}

// told reports how many messages have come, and waits for as many as are wanted. What a real server
// published before comes before an answer.
func (w *world) told(hears *redis.PubSub, want int) (n int) {
	w.Helper()
	w.must(hears.Ping(w.Context()))
	for answered := false; !answered || n < want; {
		m, err := hears.ReceiveTimeout(w.Context(), patience)
		if err != nil {
			return n
		}
		switch m.(type) {
		case *redis.Message:
			n++
		case *redis.Pong:
			answered = true
		}
	}
	return n
}

func TestWhoIsBehindADeadHeadInGoIsToldThatTheLockIsFree(t *testing.T) {
	onBoth(t, tellsPastTheDead)
}

func TestAMonitorThatHearsAllMessagesDoesNotHideThatAHeadIsDead(t *testing.T) {
	onBoth(t, func(w *world) {
		monitor := w.direct.PSubscribe(w.Context(), "*")
		defer monitor.Close()
		_, err := monitor.Receive(w.Context())
		w.must(err)
		tellsPastTheDead(w)
	})
}

func TestWhoIsBehindADeadHeadIsToldAlsoIfTheUserMayNotCountListeners(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.must(w.direct.Do(w.Context(), "ACL", "SETUSER", "default", "-pubsub").Err())
	tellsPastTheDead(w)
}

// tellsPastTheDead fails if who is behind dead heads in Go is not told that a lock is free, or
// another is.
func tellsPastTheDead(w *world) {
	w.Helper()
	for _, c := range []struct {
		what       string
		line       []string // the last one listens
		headListen bool
		want       int
	}{
		{"alone", []string{owner(4, 1)}, false, 1},
		{"behind two dead ones in Go", []string{owner(8, 1), owner(8, 2), owner(4, 1)}, false, 1},
		{"behind a live one in Go", []string{owner(8, 1), owner(4, 1)}, true, 0},
		{"behind one in Java, which may listen elsewhere", []string{owner(4, 1), owner(4, 2)}, false, 0},
		{"behind a dead one in Go and one in Java", []string{owner(8, 1), owner(4, 1), owner(4, 2)}, false, 0},
	} {
		for verb, frees := range map[string]func(*Locker, *Lease, string){
			"unlock": func(_ *Locker, lease *Lease, _ string) { w.unlock(lease) },
			"force":  func(l *Locker, _ *Lease, name string) { w.must(l.ForceUnlock(w.Context(), name)) },
			"sweep": func(l *Locker, _ *Lease, name string) {
				w.must(w.direct.Del(w.Context(), name).Err())
				dead := owner(4, 9)
				w.must(w.direct.LPush(w.Context(), prefixed(queues, name), dead).Err())
				_, err := l.TryLock(w.Context(), name)
				w.is(err, ErrHeld)
			},
		} {
			l, name := w.fair(), c.what+", "+verb
			lease := w.has(l, name, LeaseFor(time.Minute))
			for _, waiter := range c.line {
				w.stands(name, waiter, time.Minute)
			}
			if c.headListen {
				w.hears(name, c.line[0])
			}
			last := w.hears(name, c.line[len(c.line)-1])
			frees(l, lease, name)
			if n := w.told(last, c.want); n != c.want {
				w.Errorf("%s: told %d times, want %d", name, n, c.want)
			}
		}
	}
}

func TestWhoIsDroppedFromALineIsTold(t *testing.T) {
	onBoth(t, func(w *world) {
		for verb, sweeps := range map[string]func(l *Locker, lease *Lease, name string){
			"unlock": func(_ *Locker, lease *Lease, _ string) { w.unlock(lease) },
			"force":  func(l *Locker, _ *Lease, name string) { w.must(l.ForceUnlock(w.Context(), name)) },
			"try": func(l *Locker, _ *Lease, name string) {
				_, err := l.TryLock(w.Context(), name)
				w.is(err, ErrHeld)
			},
			"refresh": func(_ *Locker, _ *Lease, name string) {
				w.run(refreshScript, keysOf(name, "")[:3], 3000, 300000, "PUBLISH", prefixed(channels, name))
			},
		} {
			// Each verb has a lock of its own: a forced holder leaves in the background, and sweeps, too.
			l, name := w.fair(), verb
			lease := w.has(l, name, LeaseFor(time.Minute))
			w.stands(name, owner(4, 1), -time.Second)
			w.stands(name, owner(4, 2), time.Minute)
			dropped := w.hears(name, owner(4, 1))
			sweeps(l, lease, name)
			if n := w.told(dropped, 1); n != 1 {
				w.Errorf("%s: told %d times", verb, n)
			}
		}
	})
}

func TestALockIsFreeAlsoIfTheUserMayTellNobody(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		a, b := locker(), locker()
		w.must(w.direct.Do(w.Context(), "ACL", "SETUSER", "default", "+publish").Err())
		w.unlock(w.has(a, "y")) // the first contact finds out if it may publish
		w.unlock(w.has(b, "y"))
		w.must(w.direct.Do(w.Context(), "ACL", "SETUSER", "default", "-publish").Err())
		w.unlock(w.has(a, "x"))
		lease := w.has(a, "x")
		w.must(b.ForceUnlock(w.Context(), "x"))
		w.unlock(w.has(b, "x"))
		w.is(lease.Unlock(w.Context()), ErrLost)
		w.nothing()
	})
}

func TestAHeadInJavaThatSleepsBesideAFreeLockIsToldByAWaiterInGo(t *testing.T) {
	onBoth(t, func(w *world) {
		head := owner(4, 1)
		w.stands("x", head, time.Minute)
		sleeps := w.hears("x", head)
		ctx, cancel := context.WithCancel(w.Context())
		behind := w.queues(ctx, w.fair(WithWaiterTimeout(600*time.Millisecond)), "x", 2)
		if w.told(sleeps, 1) == 0 {
			w.Error("nobody told it")
		}
		cancel()
		w.is(w.ends(behind).err, context.Canceled)
	})
}
