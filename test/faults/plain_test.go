package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestAPlainLockWhoseGrantWasLostOnTheWayIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.plain().Behind()
		reply := f.Once(f.Verb("enter"), lost)
		w := a.Asks(background, "x")
		lease := w.Gets()
		reply.WaitExecuted(f, 1, world.Patience)
		if w.Took > world.Soon {
			f.Errorf("it took %v", w.Took)
		}
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestATryOfAPlainLockWhoseGrantWasLostOnTheWayHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.plain().Behind()
		f.meet(a)
		lease, err := f.tries(a, lost)
		f.Must(err)
		f.Took(lease)
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestAReleaseOfAPlainLockWhoseAnswerWasLostIsCleanAndTheNextHasIt(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.plain().Behind(), f.Beside()
		lease := a.Locks("x")
		w := b.WaitsPlainly("x")
		f.Listens("x", 1)
		reply := f.Once(f.Verb("leave"), lost)
		f.Unlocks(lease)
		reply.WaitExecuted(f, 1, world.Patience)
		f.Unlocks(w.Gets())
		f.Free("x")
	})
}

func TestATryOfAPlainLockThatIsExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		f.plain()
		a := f.Patient()
		f.Unlocks(a.Locks("x"))
		held := f.Once(f.Verb("enter"), faultproxy.HoldRequest())
		left := f.All(f.Verb("leave"), faultproxy.Observe())
		w := a.Asks(background, "x")
		held.WaitHit(f, 1, world.Patience)
		w.Cancel()
		if err := w.Fails(); !errors.Is(err, context.Canceled) {
			f.Fatal(err)
		}
		left.WaitExecuted(f, 1, world.Patience)
		held.Release()
		held.WaitExecuted(f, 1, world.Patience)
		f.Free("x")
	})
}

func TestAPlainWaiterWhoseTryGoesUnansweredDoesNotKeepTheNextFromTheLock(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		b := f.plain().Beside()
		a := f.Patient()
		lease := b.Locks("x")
		tries := f.All(f.Verb("enter"), faultproxy.Observe())
		first := a.WaitsPlainly("x")
		tries.WaitExecuted(f, 2, world.Patience) // it tries again when it listens
		next := a.WaitsPlainly("x")
		held := f.Once(f.Verb("enter"), faultproxy.HoldRequest())
		f.Unlocks(lease)
		f.Within(world.Soon, "the next lock", func() { f.Unlocks(next.Gets()) })
		held.Release()
		f.Unlocks(first.Gets())
		held.WaitExecuted(f, 1, world.Patience)
		f.endsUpFree("x")
	})
}

func TestAPlainWaiterWhoseTryGoesUnansweredIsPassedATurn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		b := f.plain().Beside()
		a := f.Patient()
		tries := f.All(f.Verb("enter"), faultproxy.Observe())
		for range 100 { // a busy machine may be late to end a turn
			lease := b.Locks("x")
			first := a.WaitsPlainly("x")
			tries.WaitExecuted(f, 2, world.Patience) // in the first round it tries again when it listens
			next := a.WaitsPlainly("x")
			held := f.Once(f.Verb("enter"), faultproxy.HoldRequest())
			f.Unlocks(lease)
			lease = next.Gets()
			f.Unlocks(lease)
			passed := f.Holder("x") != 0
			if passed && first.Gets().Token() != lease.Token()+1 {
				f.Fatalf("token %d after %d", first.Lease.Token(), lease.Token())
			}
			held.Release()
			held.WaitExecuted(f, 1, world.Patience)
			f.Unlocks(first.Gets())
			f.endsUpFree("x")
			if passed {
				return
			}
		}
		f.Fatal("no turn was passed on")
	})
}

func TestAPlainWaiterWhoseSubscriptionWasCutHearsOfTheReleaseAfterReconnecting(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.plain().Beside(), f.Behind()
		for range 5 {
			lease := a.Locks("x")
			w := b.WaitsPlainly("x")
			f.Listens("x", 1)
			subscribes := f.All(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
			f.Proxy.CutAll()
			f.Listens("x", 0)
			f.Unlocks(lease) // nobody hears the message
			subscribes.Remove()
			subscribes.Release()
			f.Within(world.Soon, "the next lock", func() { f.Unlocks(w.Gets()) })
		}
	})
}

func TestAPlainLockOfAServerThatLostEverythingStaysWithItsHolder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.plain().Beside(fairlock.WithLease(3*time.Second)), f.Beside()
		lease := a.Locks("x")
		w := b.WaitsPlainly("x")
		f.Listens("x", 1)
		f.Must(f.Direct.FlushAll(background).Err())
		if _, err := b.TryLock(background, "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatalf("it was given away: %v", err)
		}
		f.Until("the holder is back", func() bool { return f.Holder("x") == lease.Token() })
		f.Keeps(lease)
		w.Waits()
		f.Unlocks(lease)
		f.Unlocks(w.Gets())
	})
}

func TestAPlainWaitSurvivesARestartOfTheServer(t *testing.T) {
	f := newFaulty(t).plain()
	a, b := f.Beside(fairlock.WithLease(6*time.Second)), f.Beside()
	lease := a.Locks("x")
	w := b.WaitsPlainly("x")
	f.Server.Kill()
	f.Server.Restart()
	w.Waits()
	f.Ends(lease)
	_ = lease.Unlock(background) // kept or lost: the server has forgotten the lease
	f.Unlocks(w.Gets())
}

func TestATryOfAPlainLockOnAnUnreachableServerSaysSoAtOnce(t *testing.T) {
	f := newFaulty(t).plain()
	a := f.Behind()
	f.Unlocks(a.Locks("x"))
	f.Proxy.Refuse(true)
	f.Proxy.CutAll()
	f.Within(world.Soon, "TryLock", func() {
		if _, err := a.TryLock(background, "x"); err == nil || errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("got %v", err)
		}
	})
	f.Proxy.Refuse(false)
	f.Free("x")
}

// The first request meets a connection that has died; then the server hangs.
func TestATryOfAPlainLockThatIsNotAnsweredSaysWhatTheConnectionDid(t *testing.T) {
	f := newFaulty(t).plain()
	a := f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: 5 * time.Second})
	f.Unlocks(a.Locks("x")) // makes contact
	f.Once(f.Verb("enter"), faultproxy.DropRequest())
	held := f.All(f.Verb("enter"), faultproxy.HoldRequest())
	f.Within(world.Patience, "TryLock", func() {
		if _, err := a.TryLock(background, "x"); err == nil || errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("TryLock says %v", err)
		}
	})
	held.Release()
}
