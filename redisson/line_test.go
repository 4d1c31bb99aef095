package redisson

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// inJava puts a waiter of Java's in line, as its lock() does: its deadline is its own time after
// that of the last in line, or after the end of the lock's lease.
func (w *world) inJava(name string, n int, own time.Duration) (owner string) {
	w.Helper()
	ctx := w.Context()
	owner = fmt.Sprintf("00000000-0000-4000-8000-000000000000:%d", n)
	from := float64(time.Now().UnixMilli() + w.direct.PTTL(ctx, name).Val().Milliseconds())
	if last := w.direct.LIndex(ctx, prefixed(queues, name), -1).Val(); last != "" {
		from = w.direct.ZScore(ctx, prefixed(deadlines, name), last).Val()
	}
	score := strconv.FormatFloat(from+float64(own.Milliseconds()), 'f', 0, 64)
	w.must(w.direct.Do(ctx, "ZADD", prefixed(deadlines, name), score, owner).Err())
	w.must(w.direct.RPush(ctx, prefixed(queues, name), owner).Err())
	return owner
}

// takes has the head of the line, in Java, take the lock: it takes its own time off all deadlines,
// in one script, as Java does.
func (w *world) takes(name, owner string, own time.Duration) {
	w.Helper()
	w.must(w.direct.Eval(w.Context(), `
		redis.call('LPOP', KEYS[2])
		redis.call('ZREM', KEYS[3], ARGV[1])
		for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
			redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[2]), other)
		end
		redis.call('HSET', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], 60000)
		return 1`,
		[]string{name, prefixed(queues, name), prefixed(deadlines, name)}, owner, own.Milliseconds()).Err())
}

// left is the time until an owner's deadline.
func (w *world) left(name, owner string) time.Duration {
	ms := w.direct.ZScore(context.Background(), prefixed(deadlines, name), owner).Val()
	return time.Until(time.UnixMilli(int64(ms)))
}

// refreshed returns when an owner's deadline is another one.
func (w *world) refreshed(name, owner string) {
	w.Helper()
	deadline := func() float64 { return w.direct.ZScore(w.Context(), prefixed(deadlines, name), owner).Val() }
	before := deadline()
	w.until("it is refreshed", func() bool { return deadline() != before })
}

func TestAWaiterKeepsItsPlaceWhateverThoseAheadTakeOffItsDeadline(t *testing.T) {
	const stays, refreshed = 6 * time.Second, 2 * time.Second
	onBothAtOnce(t, func(w *world) {
		l := w.fair(WithWaiterTimeout(stays))
		lease := w.has(l, "x")
		var ahead []string
		for i := range 3 {
			ahead = append(ahead, w.inJava("x", i, DefaultFairLockWaitTimeout))
		}
		next := w.queues(w.Context(), l, "x", 4)
		last := w.queues(w.Context(), w.fair(WithWaiterTimeout(stays)), "x", 5)
		place := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 3).Val()
		for i, owner := range ahead {
			if i == 0 {
				w.unlock(lease)
			} else {
				w.must(w.direct.Del(w.Context(), "x").Err())
			}
			w.takes("x", owner, DefaultFairLockWaitTimeout)
			if left := w.left("x", place); left < refreshed {
				w.Fatalf("%d took the lock, and the deadline of the waiter is in %v", i, left)
			}
			w.refreshed("x", place)
		}
		w.must(w.direct.Del(w.Context(), "x").Err())
		lease = w.gets(next)
		if lease.Owner() != place {
			w.Errorf("%s has the lock; %s stood in line", lease.Owner(), place)
		}
		w.unlock(lease)
		w.unlock(w.gets(last))
		w.nothing()
	})
}

func TestAWaiterKeepsItsPlaceAlsoIfACallBetweenTwoOfJavasAheadGaveUp(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(), "x")
		first := w.inJava("x", 1, DefaultFairLockWaitTimeout)
		ctx, cancel := context.WithCancel(w.Context())
		between := w.queues(ctx, w.fair(), "x", 2)
		second := w.inJava("x", 2, DefaultFairLockWaitTimeout) // counts from the deadline of the call between
		next := w.queues(w.Context(), w.fair(), "x", 4)
		cancel()
		w.is(w.ends(between).err, context.Canceled)
		w.until("it has left", func() bool { return w.inLine("x") == 3 })
		place := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 2).Val()
		w.refreshed("x", place)
		w.unlock(lease)
		w.takes("x", first, DefaultFairLockWaitTimeout)
		w.must(w.direct.Del(w.Context(), "x").Err())
		w.takes("x", second, DefaultFairLockWaitTimeout)
		if left := w.left("x", place); left <= 0 {
			w.Errorf("two in Java had the lock, and the deadline of the waiter is in %v", left)
		}
		w.must(w.direct.Del(w.Context(), "x").Err())
		w.unlock(w.gets(next))
		w.nothing()
	})
}

func TestACallInJavaBehindADeadOneInGoHasItsWholeTime(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(), "x")
		l := w.fair(WithWaiterTimeout(600 * time.Millisecond))
		next := w.queues(w.Context(), l, "x", 1)
		dead := owner(8, 9)
		w.stands("x", dead, -time.Minute)
		told := w.hears("x", dead)
		w.until("it is dropped", func() bool { return w.inLine("x") == 1 })
		if w.told(told, 1) == 0 {
			w.Error("it is not told")
		}
		if left := w.left("x", w.inJava("x", 1, 20*time.Second)); left < 15*time.Second {
			w.Errorf("its deadline is in %v", left)
		}
		w.unlock(lease)
		w.unlock(w.gets(next))
	})
}

// Java's deadlines count from that of the last in line, and nobody lowers them.
func TestShortTriesInJavaAheadOfACallDoNotAddMinutesEachToTheDeadlinesBehindIt(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(), "x")
		for thread := range 20 {
			w.inJava("x", thread, 5*time.Second)
		}
		next := w.queues(w.Context(), w.fair(), "x", 21)
		last := w.inJava("x", 20, DefaultFairLockWaitTimeout)
		if left := w.left("x", last); left > 25*time.Minute {
			w.Errorf("if it died at the head, it would keep the lock from others for %v", left)
		}
		w.must(w.direct.Del(w.Context(), prefixed(queues, "x"), prefixed(deadlines, "x")).Err())
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.nothing()
	})
}

func TestADeadProcessKeepsItsPlaceNoLongerIfThoseAheadWereQuick(t *testing.T) {
	onBoth(t, func(w *world) {
		timeout, dead := 900*time.Millisecond, owner(8, 1)
		lease := w.has(w.fair(WithWaiterTimeout(timeout)), "x")
		quick := w.inJava("x", 1, 10*time.Second)
		w.stands("x", dead, timeout+DefaultFairLockWaitTimeout) // what Java ahead may take off
		next := w.queues(w.Context(), w.fair(WithWaiterTimeout(timeout)), "x", 3)
		w.unlock(lease)
		w.takes("x", quick, 10*time.Second)
		w.until("its deadline is lowered", func() bool { return w.left("x", dead) <= timeout })
		w.must(w.direct.Del(w.Context(), "x").Err())
		w.unlock(w.gets(next))
		w.nothing()
	})
}

func TestAReleaseLowersTheDeadlineOfADeadHeadInGo(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(WithWaiterTimeout(time.Second)), "x")
		w.stands("x", owner(8, 1), time.Minute)
		w.stands("x", owner(4, 1), 2*time.Minute)
		w.unlock(lease)
		if left := w.left("x", owner(8, 1)); left > time.Second {
			w.Errorf("a dead head keeps its place for %v", left)
		}
		if left := w.left("x", owner(4, 1)); left < time.Minute {
			w.Errorf("that of Java is lowered, too: %v", left)
		}
	})
}

func TestADeadHeadInGoKeepsAFreeLockFromNobodyForLongerThanTheWaiterTimeout(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.fair(WithWaiterTimeout(600 * time.Millisecond))
		for verb, ask := range map[string]func(name string) error{
			"a try": func(name string) error {
				lease, err := l.TryLock(w.Context(), name)
				defer runtime.KeepAlive(lease)
				return err
			},
			"a bounded call": func(name string) error {
				lease, err := l.Lock(w.Context(), name, MaxWaiters(1))
				defer runtime.KeepAlive(lease)
				return err
			},
			"a force": func(name string) error { return l.ForceUnlock(w.Context(), name) },
		} {
			w.stands(verb, owner(8, 1), 10*time.Minute) // what callers in Java ahead might have taken off
			err := ask(verb)
			if !strings.HasPrefix(fmt.Sprint(errors.Unwrap(err)), map[string]string{
				"a try": "the lock is held: for the next in line, 1 waiting", "a bounded call": ErrQueueFull.Error(), "a force": ErrNotHeld.Error(),
			}[verb]) {
				w.Errorf("%s: %v", verb, err)
			}
			if left := w.left(verb, owner(8, 1)); left > 600*time.Millisecond {
				w.Errorf("%s leaves the place of a dead head for %v", verb, left)
			}
			w.until("it is dropped", func() bool { return ask(verb) == nil || verb == "a force" && w.inLine(verb) == 0 })
		}
	})
}

func TestADeadHeadInGoCostsTheWaiterTimeoutWhateverTheLease(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.fair(WithWaiterTimeout(600 * time.Millisecond))
		lease := w.has(w.fair(), "x") // for 30 s
		next := w.queues(w.Context(), l, "x", 1)
		head := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 0).Val()
		if left := w.left("x", head); left > 600*time.Millisecond {
			w.Fatalf("a dead process would keep its place for %v", left)
		}
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.nothing()
	})
}

func TestAPlaceThatIsLostIsTakenAgainAtTheEndAndTold(t *testing.T) {
	onBoth(t, func(w *world) {
		told := make(chan Event, 100)
		l := w.fair(WithWaiterTimeout(600*time.Millisecond), WithObserver(observer(told)))
		lease := w.has(l, "x")
		next := w.queues(w.Context(), l, "x", 1)
		w.must(w.direct.Del(w.Context(), prefixed(queues, "x"), prefixed(deadlines, "x")).Err())
		w.until("it is in line again", func() bool { return w.inLine("x") == 1 })
		for event := range told {
			if event.Kind == PassedOver {
				break
			}
		}
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.nothing()
	})
}

type observer chan<- Event

func (o observer) Observe(e Event) { o <- e }

func TestAHeadWithoutADeadlineIsDropped(t *testing.T) {
	onBoth(t, func(w *world) {
		w.must(w.direct.RPush(w.Context(), prefixed(queues, "x"), "00000000-0000-4000-8000-000000000000:1").Err())
		w.unlock(w.has(w.fair(), "x"))
		w.nothing()
	})
}

func TestADeadHeadInJavaIsDroppedWhenItsDeadlineHasPassed(t *testing.T) {
	onBoth(t, func(w *world) {
		w.inJava("x", 1, 300*time.Millisecond)
		w.unlock(w.has(w.fair(WithWaiterTimeout(600*time.Millisecond)), "x"))
		w.nothing()
	})
}

func TestAWaiterInJavaMayStayForEver(t *testing.T) {
	onBoth(t, func(w *world) {
		head := owner(4, 1)
		w.must(w.direct.Do(w.Context(), "ZADD", prefixed(deadlines, "x"), "9200000000000000000", head).Err()) // tryLock(Long.MAX_VALUE), nearly
		w.must(w.direct.RPush(w.Context(), prefixed(queues, "x"), head).Err())
		state, err := w.fair().Inspect(w.Context(), "x")
		w.must(err)
		if note := state.Waiters[0].Note; !strings.HasPrefix(note, "stays for ") {
			w.Errorf("it is shown with %q", note)
		}
		seen, err := decodeView(w.run(refreshScript, keysOf("x", "")[:3], 3000, 300000, "PUBLISH", prefixed(channels, "x")))
		if w.must(err); seen.ends < 24*time.Hour {
			w.Errorf("its deadline is in %v", seen.ends)
		}
	})
}

func TestAPlaceIsKeptWhileOnQueuedRuns(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.fair(WithWaiterTimeout(300 * time.Millisecond))
		lease := w.has(l, "x")
		goes := make(chan struct{})
		next := w.queues(w.Context(), l, "x", 1, OnQueued(func(int) { <-goes }))
		head := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 0).Val()
		for range 3 {
			w.refreshed("x", head)
		}
		close(goes)
		w.unlock(lease)
		if lease = w.gets(next); lease.Owner() != head {
			w.Errorf("%s has the lock; %s stood in line", lease.Owner(), head)
		}
		w.unlock(lease)
		w.nothing()
	})
}

func TestACallThatWasLetIntoLineIsNotTurnedAwayWhenItLosesItsPlace(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(), "x")
		l := w.fair(WithWaiterTimeout(600 * time.Millisecond))
		next := w.queues(w.Context(), l, "x", 1, MaxWaiters(1))
		place := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 0).Val()
		first := w.inJava("x", 1, DefaultFairLockWaitTimeout)
		w.must(w.direct.ZRem(w.Context(), prefixed(deadlines, "x"), place).Err()) // as if it had passed
		w.until("it queues up again", func() bool {
			select {
			case o := <-next:
				w.Fatalf("%+v", o)
			default:
			}
			return w.direct.LIndex(w.Context(), prefixed(queues, "x"), 1).Val() == place
		})
		w.unlock(lease)
		w.takes("x", first, DefaultFairLockWaitTimeout)
		w.must(w.direct.Del(w.Context(), "x").Err())
		w.unlock(w.gets(next))
		w.nothing()
	})
}

func TestWhoDiedInLineBehindALiveWaiterDoesNotCountForMaxWaiters(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.fair(), w.fair()
		lease := w.has(a, "x")
		next := w.queues(w.Context(), b, "x", 1)
		w.stands("x", owner(4, 1), -time.Second)
		_, err := b.Lock(w.Context(), "x", MaxWaiters(1))
		w.is(err, ErrQueueFull)
		last := w.queues(w.Context(), a, "x", 3, MaxWaiters(2))
		_, err = b.Lock(w.Context(), "x", MaxWaiters(2))
		w.is(err, ErrQueueFull)
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.unlock(w.gets(last))
		w.nothing()
	})
}

func TestARefreshThatHangsCostsNobodyItsPlace(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	proxy := faultproxy.New(t, w.addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = rdb.Close() })
	told := make(chan Event, 100)
	l := New(rdb, WithWaiterTimeout(6*time.Second), WithObserver(observer(told)))
	t.Cleanup(func() { _ = l.Close() })
	lease := w.has(w.fair(), "x")
	first := w.queues(w.Context(), l, "x", 1)
	second := w.queues(w.Context(), w.fair(WithWaiterTimeout(6*time.Second)), "x", 2)
	place := w.direct.LIndex(w.Context(), prefixed(queues, "x"), 0).Val()
	hung := proxy.Add(faultproxy.Rule{Match: refreshes, Times: 1, Action: faultproxy.HoldRequest()})
	hung.WaitHit(t, 1, patience)
	for range 3 {
		w.refreshed("x", place)
	}
	hung.Release()
	for len(told) > 0 {
		if e := <-told; e.Kind == PassedOver {
			t.Errorf("%+v", e)
		}
	}
	w.unlock(lease)
	if lease = w.gets(first); lease.Owner() != place {
		t.Errorf("%s has the lock; %s stood in line", lease.Owner(), place)
	}
	w.unlock(lease)
	w.unlock(w.gets(second))
	w.nothing()
}

// refreshes matches the one script of a waiter that has three keys.
func refreshes(args []string) bool {
	return faultproxy.Command("EVALSHA")(args) && len(args) > 2 && args[2] == "3"
}

// As after an eviction, or the DEL of an operator.
func TestAWaiterWhosePlaceIsGoneAndNotItsDeadlineStandsInLineAgain(t *testing.T) {
	onBoth(t, func(w *world) {
		lease := w.has(w.fair(), "x")
		waiter := w.queues(w.Context(), w.fair(), "x", 1)
		w.must(w.direct.Del(w.Context(), prefixed(queues, "x")).Err())
		other := w.queues(w.Context(), w.fair(), "x", 1)
		w.until("both are in line", func() bool { return w.inLine("x") == 2 })
		w.unlock(lease)
		w.unlock(w.gets(other))
		w.unlock(w.gets(waiter))
		w.nothing()
	})
}
