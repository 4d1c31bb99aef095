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

// onBothKinds runs the test on a real server, with each kind of lock.
func onBothKinds(t *testing.T, test func(f *faulty)) {
	t.Helper()
	world.Together(t, map[string]func(*testing.T){
		"fair":  func(t *testing.T) { test(newFaulty(t)) },
		"plain": func(t *testing.T) { test(newFaulty(t).plain()) },
	})
}

func TestALockThatLockAllCannotKeepIsGivenBackByOneRequest(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		held := f.Beside().Locks("x")
		// An answer that its client does not wait for would cost a leave more.
		u := f.Patient()
		f.Refused("lockall", "x", world.Refusal{Is: fairlock.ErrHeld}, func() error {
			_, err := u.LockAll(background, several, fairlock.WaitAtMost(0))
			return err
		})
		f.Until("they are given back", func() bool { return f.Holder("y") == 0 && f.Holder("z") == 0 })
		f.Must(u.Close()) // all requests have been answered
		if n := f.Proxy.Count(f.Verb("leave")); n != 2 {
			f.Errorf("%d leaves for two locks", n)
		}
		f.nobody("y")
		f.nobody("z")
		f.Unlocks(held)
	})
}

func TestALockThatIsGivenBackAfterCloseIsFreeThoughTheServerForgotTheScripts(t *testing.T) {
	f := newFaulty(t)
	held := f.Beside().Locks("x")
	u := f.Behind()
	queued, goes, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := u.Lock(background, "x", fairlock.OnQueued(func(int) {
			close(queued)
			<-goes
		}))
		ended <- err
	}()
	<-queued
	f.Unlocks(held)
	f.Until("its process knows that it has the lock", func() bool { return f.Proxy.Count(f.Verb("renew")) > 0 })
	f.Must(u.Close())
	f.Must(f.Direct.ScriptFlush(background).Err())
	close(goes)
	if err := <-ended; !errors.Is(err, fairlock.ErrClosed) {
		f.Errorf("Lock says %v", err)
	}
	f.Until("it is given back", func() bool { return f.Holder("x") == 0 })
	f.nobody("x")
}

func TestAnUnlockAfterCloseOutlivesAConnectionThatDied(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		u := f.User(&redis.Options{Addr: f.Proxy.Addr(), MaxRetries: -1})
		lease := u.Locks("x")
		f.Must(u.Close())
		dropped := f.Once(f.Verb("leave"), faultproxy.DropRequest())
		if err := lease.Unlock(background); err != nil {
			f.Errorf("Unlock says %v", err)
		}
		if dropped.Hits() != 1 {
			f.Errorf("%d leaves were lost", dropped.Hits())
		}
		f.nobody("x")
	})
}

func TestANestedCallThatFailsEndsInItsTimeThoughTheOuterLeaseHasEndedMeanwhile(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		u := f.Patient()
		outer := u.Locks("x")
		renew, leave := f.All(f.Verb("renew"), faultproxy.HoldRequest()), f.All(f.Verb("leave"), faultproxy.HoldRequest())
		// The end of the outer one does not end it.
		ctx, cancel := context.WithCancel(context.WithoutCancel(outer.Context()))
		failed := make(chan error, 1)
		go func() {
			_, err := u.Lock(ctx, "x", fairlock.LeaseFor(time.Minute))
			failed <- err
		}()
		renew.WaitHit(f, 1, world.Patience)
		f.Unlocks(outer) // no request: the nested call has the lock, too
		cancel()
		f.Within(world.Soon, "the nested call", func() {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		leave.WaitHit(f, 1, world.Patience)
		for _, held := range []*faultproxy.Handle{renew, leave} {
			held.Remove()
			held.Release()
		}
		f.Until("it is given back", func() bool { return f.Holder("x") == 0 })
		f.nobody("x")
	})
}

func TestAnUnlockAfterCloseWaitsForAServerThatIsSlow(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		u := f.User(&redis.Options{Addr: f.Proxy.Addr(), ContextTimeoutEnabled: true})
		lease := u.Locks("x")
		f.Must(u.Close())
		f.All(f.Verb("leave"), faultproxy.DelayReply(400*time.Millisecond))
		if err := lease.Unlock(background); err != nil {
			f.Errorf("Unlock says %v", err)
		}
		f.nobody("x")
	})
}
