package locktest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
)

// inBothTimes runs a test in real time and in fake time.
func inBothTimes(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

func lock(t *testing.T, locker fairlock.Interface, name string, options ...fairlock.LockOption) *fairlock.Lease {
	t.Helper()
	lease, err := locker.Lock(t.Context(), name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func unlock(t *testing.T, lease *fairlock.Lease) {
	t.Helper()
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// isOver reports whether everything about the Lease says that the lock is lost.
func isOver(lease *fairlock.Lease) bool {
	select {
	case <-lease.Done():
		return errors.Is(lease.Err(), fairlock.ErrLost) && errors.Is(context.Cause(lease.Context()), fairlock.ErrLost)
	default:
		return false
	}
}

func TestWhoLosesALockKnowsItWhenLoseReturns(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t)
		plain := locks.Reentrant()
		elsewhere := locks.Elsewhere()
		lock(t, plain, "both kinds")
		for what, lease := range map[string]*fairlock.Lease{
			"fair":          lock(t, locks, "x"),
			"both kinds":    lock(t, locks, "both kinds"),
			"plain":         lock(t, plain, "x"),
			"elsewhere":     lock(t, elsewhere, "y"),
			"a fixed term":  lock(t, locks, "fixed", fairlock.LeaseFor(time.Hour)),
			"named":         lock(t, locks, "named", fairlock.WithOwner("saga:7")),
			"HoldElsewhere": locks.HoldElsewhere("z"),
		} {
			locks.Lose(lease)
			if !isOver(lease) {
				t.Errorf("%s: the Lease says %v", what, lease.Err())
			}
		}
	})
}

func TestTheNextInLineHasTheLockThatWasLost(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t)
		lease := lock(t, locks, "x")
		next := make(chan *fairlock.Lease, 1)
		elsewhere := locks.Elsewhere()
		go func() { next <- lock(t, elsewhere, "x") }()
		locks.AwaitWaiters("x", 1)
		locks.Lose(lease)
		if has := <-next; has.Token() <= lease.Token() || has.Err() != nil {
			t.Errorf("token %d after %d: %v", has.Token(), lease.Token(), has.Err())
		}
	})
}

func TestTheFunctionOfDoIsToldOfItsLoss(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t)
		err := locks.Do(t.Context(), "x", func(ctx context.Context, lease *fairlock.Lease) error {
			locks.Lose(lease)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), fairlock.ErrLost) {
				t.Errorf("the context ended with %v", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhoHoldsALockElsewhereIsAnotherProcessAndStaysOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t, fairlock.WithIdentity(fairlock.ByGoroutine), fairlock.WithPrefix("app"))
		locks.HoldElsewhere("x", fairlock.Note("the other"))
		time.Sleep(time.Hour) // it is renewed
		var held *fairlock.HeldError
		for _, locker := range []fairlock.Interface{locks, locks.Elsewhere()} {
			if _, err := locker.TryLock(t.Context(), "x"); !errors.As(err, &held) {
				t.Errorf("got %v", err)
			}
		}
		state, err := locks.Inspect(t.Context(), "x")
		if err != nil || state.Holder == nil || state.Holder.Note != "the other" {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

func TestWaitersAreShownInTheirOrder(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t)
		other := locks.HoldElsewhere("x")
		if line := locks.WaitersOf("x"); len(line) != 0 {
			t.Fatalf("in line are %+v", line)
		}
		var calls sync.WaitGroup
		var order []string // changed only under the lock
		for i, note := range []string{"a", "b", "c"} {
			calls.Go(func() {
				lease := lock(t, locks, "x", fairlock.Note(note))
				order = append(order, note)
				unlock(t, lease)
			})
			if line := locks.AwaitWaiters("x", i+1); len(line) != i+1 || line[i].Note != note {
				t.Fatalf("in line are %+v", line)
			}
		}
		unlock(t, other)
		calls.Wait()
		if len(order) != 3 || order[0] != "a" || order[1] != "b" || order[2] != "c" {
			t.Errorf("served were %q", order)
		}
	})
}

func TestTheLineThatQueueElsewhereMakesPassesTheLockOn(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t)
		other := locks.HoldElsewhere("x")
		locks.QueueElsewhere("x", 50)
		if n := len(locks.WaitersOf("x")); n != 50 {
			t.Errorf("%d are in line", n)
		}
		if _, err := locks.Lock(t.Context(), "x", fairlock.MaxWaiters(50)); !errors.Is(err, fairlock.ErrQueueFull) {
			t.Errorf("got %v", err)
		}
		unlock(t, other)
		unlock(t, lock(t, locks, "x")) // behind all of them
	})
}

func TestACodesOwnLockerOnAClientOfTheServerIsUnderControlToo(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		locks := locktest.New(t, fairlock.WithPrefix("app"))
		own := fairlock.New(locks.Server.Client(), fairlock.WithPrefix("app"))
		defer own.Close()
		lease := lock(t, own, "x")
		locks.Lose(lease)
		if !isOver(lease) {
			t.Errorf("the Lease says %v", lease.Err())
		}
	})
}

type counter struct {
	mu  sync.Mutex
	all []fairlock.Event
}

func (c *counter) Observe(e fairlock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, e)
}

func TestTheObserverIsToldOfTheProcessUnderTestOnly(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		seen := &counter{}
		locks := locktest.New(t, fairlock.WithObserver(seen))
		unlock(t, locks.HoldElsewhere("there"))
		unlock(t, lock(t, locks.Elsewhere(), "there"))
		unlock(t, lock(t, locks, "here"))
		if err := locks.Close(); err != nil { // it has told everything then
			t.Fatal(err)
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.all) != 2 || seen.all[0].Name != "here" || seen.all[1].Kind != fairlock.Released {
			t.Errorf("told were %+v", seen.all)
		}
	})
}

// What a test leaves is ended with it. TestMain looks for goroutines.
func TestATestMayEndAmidEverything(t *testing.T) {
	for _, away := range []func(*locktest.Server){(*locktest.Server).Resume, (*locktest.Server).Pause, (*locktest.Server).Stop} {
		ended := make(chan error, 4)
		inBothTimes(t, func(t *testing.T) {
			locks := locktest.New(t)
			plain := locks.Reentrant()
			lock(t, plain, "x")
			locks.HoldElsewhere("x")
			locks.QueueElsewhere("x", 3)
			for _, locker := range []fairlock.Interface{locks.Elsewhere(), plain} {
				waits := make(chan struct{})
				once := sync.OnceFunc(func() { close(waits) })
				go func() {
					_, err := locker.Lock(context.Background(), "x", fairlock.OnQueued(func(int) { once() }))
					ended <- err
				}()
				<-waits
			}
			away(locks.Server)
		})
		t.Cleanup(func() { // when both have ended
			for range 4 {
				if err := <-ended; !errors.Is(err, fairlock.ErrClosed) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestASecondServerKnowsNothingOfTheFirst(t *testing.T) {
	inBothTimes(t, func(t *testing.T) {
		lock(t, locktest.New(t), "x")
		lock(t, locktest.New(t), "x")
	})
}
