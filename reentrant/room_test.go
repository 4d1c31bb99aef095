package reentrant

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// inBubble runs the test in fake time with a server and a way to make Lockers on it.
func inBubble(t *testing.T, test func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mini := miniredis.NewMiniRedis()
		mini.ClockTTL(true)
		defer mini.Close()
		test(t, mini, func(options ...Option) *Locker {
			rdb := redis.NewClient(&redis.Options{
				Addr:   "127.0.0.1:0", // never dialled
				Dialer: func(context.Context, string, string) (net.Conn, error) { return mini.Dial() },
			})
			l := New(rdb, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
			t.Cleanup(func() {
				_ = l.Close()
				_ = rdb.Close()
			})
			return l
		})
	})
}

func holding(t *testing.T, l *Locker, name string, options ...LockOption) *Lease {
	t.Helper()
	lease, err := l.Lock(t.Context(), name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func released(t *testing.T, lease *Lease) {
	t.Helper()
	if err := lease.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
}

type result struct {
	lease *Lease
	err   error
}

// waits has a call wait.
func waits(t *testing.T, l *Locker, name string, options ...LockOption) <-chan result {
	t.Helper()
	queued, done := make(chan struct{}), make(chan result, 1)
	go func() {
		lease, err := l.Lock(context.Background(), name, append(options, OnQueued(func(int) { close(queued) }))...)
		done <- result{lease, err}
	}()
	<-queued
	return done
}

// room is that of a lock.
func (l *Locker) roomOf(name string) *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rooms["fairlock:plain:lock:{"+name+"}"]
}

// stuck puts a call into the lock's room that has waited for so long and does nothing.
func (l *Locker) stuck(t *testing.T, name string, since time.Duration) *call {
	t.Helper()
	keys, err := l.core.keys(name)
	if err != nil {
		t.Fatal(err)
	}
	c := &call{name: name, keys: keys, began: time.Now().Add(-since)}
	if _, err := l.join(c, time.Now(), &HeldError{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNoLaterCallOfAProcessOvertakesOneThatHasWaitedForASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "x")) // makes contact
		old := l.stuck(t, "x", time.Second+1)
		synctest.Wait()
		before := mini.CommandCount()
		_, err := l.TryLock(t.Context(), "x")
		if held := new(HeldError); !errors.As(err, &held) || held.Waiting != 1 {
			t.Fatalf("TryLock: %v", err)
		}
		if _, err := l.Lock(t.Context(), "x", WaitAtMost(500*time.Millisecond)); !errors.Is(err, ErrHeld) {
			t.Fatalf("Lock: %v", err)
		}
		if sent := mini.CommandCount() - before; sent != 0 {
			t.Errorf("they sent %d commands", sent)
		}
		later := waits(t, l, "x")
		synctest.Wait()
		if len(later) > 0 {
			t.Fatal("overtaken")
		}
		l.quit(l.roomOf("x"), old)
		released(t, (<-later).lease)
	})
}

func TestWhoeverHasNotWaitedForASecondMayBeOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		l.stuck(t, "x", time.Second-time.Millisecond)
		lease, err := l.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		released(t, lease)
	})
}

func TestATurnThatIsNotTakenPassesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		first := l.stuck(t, "x", 0)
		next := waits(t, l, "x")
		synctest.Wait() // the first has had its turn since the subscription came up, and does nothing with it
		if len(first.turn) != 1 {
			t.Fatal("the first has no turn")
		}
		released(t, lease)
		synctest.Wait()
		if len(next) > 0 {
			t.Fatal("two had the turn")
		}
		began := time.Now()
		l.quit(l.roomOf("x"), first)
		released(t, (<-next).lease)
		if took := time.Since(began); took > tryAgain {
			t.Errorf("it took %v", took)
		}
	})
}

func TestNoWaiterTriesTwiceWithinItsPause(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		next := waits(t, l, "x")
		synctest.Wait()
		time.Sleep(2 * tryAgain)
		before := l.core.counter.Load()
		began := time.Now()
		for range 100 { // a storm of releases
			mini.Publish("fairlock:plain:freed:{x}", "somebody")
			synctest.Wait()
		}
		for time.Since(began) < 10*tryAgain {
			mini.Publish("fairlock:plain:freed:{x}", "somebody")
			time.Sleep(tryAgain / 5)
		}
		if tries := l.core.counter.Load() - before; tries < 2 || tries > 13 {
			t.Errorf("%d tries in %v", tries, time.Since(began))
		}
		released(t, lease)
		released(t, (<-next).lease)
	})
}

func TestAWaiterJoinsAHolderOfItsOwnNameAsSoonAsAnyoneHereLearnsOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		first, kin := waits(t, l, "x"), waits(t, l, "x", WithOwner("saga-7"))
		synctest.Wait()
		mini.Del("fairlock:plain:lock:{x}") // nobody is told of this
		theirs := holding(t, other, "x", WithOwner("saga-7"))
		got := <-kin
		if got.err != nil || got.lease.Token() != theirs.Token() || len(first) > 0 {
			t.Fatalf("%+v", got)
		}
		released(t, theirs)
		released(t, got.lease)
		released(t, (<-first).lease)
		_ = lease.Unlock(context.Background()) // lost
	})
}

func TestARoomGoesWithItsSubscriptionSomeTimeAfterItsLastWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		subscribed := func() int { return mini.PubSubNumSub("fairlock:plain:freed:{x}")["fairlock:plain:freed:{x}"] }
		for range 2 {
			lease := holding(t, other, "x")
			next := waits(t, l, "x")
			synctest.Wait()
			released(t, lease)
			released(t, (<-next).lease)
			synctest.Wait()
			if subscribed() != 1 {
				t.Fatal("the subscription is made again for every waiter")
			}
		}
		time.Sleep(3 * roomStays)
		synctest.Wait()
		if subscribed() != 0 || l.roomOf("x") != nil {
			t.Fatal("it stays for ever")
		}
	})
}

// Between a newcomer's try and its joining, the lock may have been released, and nobody was there to hear of it.
func TestAReleaseBetweenATryAndItsWaitingIsNotMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		next := waits(t, l, "x") // so that there is a room with a subscription
		synctest.Wait()
		released(t, lease)
		released(t, (<-next).lease)
		synctest.Wait()

		lease = holding(t, other, "x")
		keys, _ := l.core.keys("x")
		late := &call{name: "x", keys: keys, request: Request{Lease: 30 * time.Second, Wait: -1}, began: time.Now()}
		asked := time.Now()
		if o := l.first(t.Context(), late); o.held == nil {
			t.Fatalf("%+v", o)
		}
		time.Sleep(time.Millisecond)
		released(t, lease)
		synctest.Wait()
		r, err := l.join(late, asked, &HeldError{Remaining: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-late.turn:
		default:
			t.Error("it has no turn")
		}
		l.quit(r, late)
	})
}
