package fairlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// plain has the users of f use plain locks.
func (f *faulty) plain() *faulty {
	f.kind, f.prefix = newPlain, "fairlock:plain"
	return f
}

// waitsPlainly has a call wait for a plain lock.
func (u *faultUser) waitsPlainly(name string) *faultWait {
	u.f.Helper()
	queued := make(chan struct{}, 1)
	w := u.asks(faultCtx, name, fairlock.OnQueued(func(int) { queued <- struct{}{} }))
	select {
	case <-queued:
	case <-time.After(faultPatience):
		u.f.Fatal("it does not wait")
	}
	return w
}

// listens returns when the server has as many subscribers of the lock's releases.
func (f *faulty) listens(name string, n int64) {
	f.Helper()
	channel := lua.Freed("fairlock:plain", f.keys(name))
	f.until("they listen", func() bool { return f.direct.PubSubNumSub(faultCtx, channel).Val()[channel] == n })
}

func TestAPlainLockWhoseGrantWasLostOnTheWayIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.plain().behind()
		reply := f.once(f.verb("enter"), lost)
		w := a.asks(faultCtx, "x")
		lease := w.gets()
		reply.WaitExecuted(f, 1, faultPatience)
		if w.took > faultSoon {
			f.Errorf("it took %v", w.took)
		}
		f.keeps(lease)
		f.unlocks(lease)
		f.free("x")
	})
}

func TestATryOfAPlainLockWhoseGrantWasLostOnTheWayHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.plain().behind()
		reply := f.once(f.verb("enter"), lost)
		f.within(faultSoon, "TryLock", func() {
			lease, err := a.TryLock(faultCtx, "x")
			f.must(err)
			f.took(lease)
		})
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(f.oldest())
		f.unlocks(f.oldest())
		f.free("x")
	})
}

func TestAReleaseOfAPlainLockWhoseAnswerWasLostIsCleanAndTheNextHasIt(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.plain().behind(), f.beside()
		lease := a.locks("x")
		w := b.waitsPlainly("x")
		f.listens("x", 1)
		reply := f.once(f.verb("leave"), lost)
		f.unlocks(lease)
		reply.WaitExecuted(f, 1, faultPatience)
		f.unlocks(w.gets())
		f.free("x")
	})
}

func TestATryOfAPlainLockThatIsExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.plain().behind()
		f.unlocks(a.locks("x"))
		held := f.once(f.verb("enter"), faultproxy.HoldRequest())
		ctx, cancel := context.WithTimeout(faultCtx, 200*time.Millisecond)
		defer cancel()
		left := f.all(f.verb("leave"), faultproxy.Observe())
		w := a.asks(ctx, "x")
		if err := w.fails(); !errors.Is(err, context.DeadlineExceeded) {
			f.Fatal(err)
		}
		left.WaitExecuted(f, 1, faultPatience)
		held.Release()
		held.WaitExecuted(f, 1, faultPatience)
		f.free("x")
	})
}

func TestAPlainWaiterWhoseSubscriptionWasCutHearsOfTheReleaseAfterReconnecting(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.plain().beside(), f.behind()
		for range 5 {
			lease := a.locks("x")
			w := b.waitsPlainly("x")
			f.listens("x", 1)
			subscribes := f.all(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
			f.proxy.CutAll()
			f.listens("x", 0)
			f.unlocks(lease) // which nobody hears
			subscribes.Remove()
			subscribes.Release()
			f.within(faultSoon, "the next lock", func() { f.unlocks(w.gets()) })
		}
	})
}

func TestAPlainLockOfAServerThatLostEverythingStaysWithItsHolder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.plain().beside(fairlock.WithLease(3*time.Second)), f.beside()
		lease := a.locks("x")
		w := b.waitsPlainly("x")
		f.listens("x", 1)
		f.must(f.direct.FlushAll(faultCtx).Err())
		if _, err := b.TryLock(faultCtx, "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatalf("it was given away: %v", err)
		}
		f.until("the holder is back", func() bool { return f.holder("x") == lease.Token() })
		f.keeps(lease)
		w.waits()
		f.unlocks(lease)
		f.unlocks(w.gets())
	})
}

func TestAPlainWaitSurvivesARestartOfTheServer(t *testing.T) {
	f := newFaulty(t).plain()
	a, b := f.beside(fairlock.WithLease(2*time.Second)), f.beside()
	lease := a.locks("x")
	w := b.waitsPlainly("x")
	f.server.Kill()
	f.server.Restart()
	w.waits()
	f.ends(lease)
	_ = lease.Unlock(faultCtx) // kept or lost: the server has forgotten it
	f.unlocks(w.gets())
}

func TestATryOfAPlainLockOnAnUnreachableServerSaysSoAtOnce(t *testing.T) {
	f := newFaulty(t).plain()
	a := f.behind()
	f.unlocks(a.locks("x"))
	f.proxy.Refuse(true)
	f.proxy.CutAll()
	f.within(faultSoon, "TryLock", func() {
		if _, err := a.TryLock(faultCtx, "x"); err == nil || errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("got %v", err)
		}
	})
	f.proxy.Refuse(false)
	f.free("x")
}
