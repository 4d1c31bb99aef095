package fairlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

// onOutOfReach runs the test with each way in which those behind the proxy can lose the server.
func onOutOfReach(t *testing.T, test func(f *faulty, loses, finds func())) {
	t.Helper()
	together(t, map[string]func(*testing.T){
		"frozen": func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f, func() { f.proxy.Freeze(true) }, func() { f.proxy.Freeze(false) })
			})
		},
		"refused": func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f, func() { f.proxy.Refuse(true); f.proxy.CutAll() }, func() { f.proxy.Refuse(false) })
			})
		},
	})
}

func TestAHolderThatCannotReachTheServerKnowsThatItsLockIsLostBeforeTheNextOneHasIt(t *testing.T) {
	onOutOfReach(t, func(f *faulty, loses, finds func()) {
		a, b := f.behind(fairlock.WithLease(calmLease)), f.beside(fairlock.WithLease(calmLease))
		lease := a.locks("x")
		lost := make(chan time.Time, 1)
		context.AfterFunc(lease.Context(), func() { lost <- time.Now() })
		w := b.queues("x", 1)
		loses()
		deadline := f.reaches(lease)

		w.gets() // and took fails if a still trusts its lease then
		at := <-lost
		if !at.Before(w.at) {
			f.Errorf("the holder knew it %v after the next one had the lock", at.Sub(w.at))
		}
		if w.at.Before(deadline) {
			f.Errorf("the next one had it %v before trust ended", deadline.Sub(w.at))
		}
		f.Logf("lost %v before the next grant", w.at.Sub(at))
		if cause := context.Cause(lease.Context()); cause != fairlock.ErrLost {
			f.Errorf("the cause is %v", cause)
		}
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("Err is %v", lease.Err())
		}
		if lease.Deadline().After(at) {
			f.Errorf("trust is to end %v after it ended", lease.Deadline().Sub(at))
		}
		f.ends(lease)
		f.within(faultSoon, "Unlock", func() {
			if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
				f.Errorf("Unlock says %v", err)
			}
		})
		finds()
		f.keeps(w.gets())
		f.served(w)
		f.nobody("x")
	})
}

// reaches returns when trust in the lease has ended, and when that was to be by the last renewal.
func (f *faulty) reaches(lease *fairlock.Lease) (deadline time.Time) {
	for {
		at := lease.Deadline()
		if lease.Err() != nil {
			return deadline
		}
		deadline = at
		time.Sleep(time.Millisecond)
	}
}

func TestAnUnlockLongAfterTheLossSaysLostAndTheLockerCanBeShutDown(t *testing.T) {
	f := newFaulty(t)
	a := f.behind(fairlock.WithLease(briefLease))
	lease := a.locks("x")
	renewals := f.all(f.verb("renew"), faultproxy.DropRequest())
	farewell := f.once(f.verb("leave"), faultproxy.Observe()) // a renewal might have been executed
	<-lease.Done()
	f.ends(lease)
	farewell.WaitExecuted(f, 1, faultPatience)
	renewals.Remove()
	for range 2 {
		if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
	}
	other := a.locks("y")
	defer time.AfterFunc(100*time.Millisecond, func() { f.unlocks(other) }).Stop()
	f.must(a.Shutdown(fromNow(faultSoon)))
	if f.holder("y") != 0 {
		f.Error("Shutdown did not wait for the holder")
	}
	f.nobody("x")
}

func TestDoOfAHolderThatCannotReachTheServerEndsItsFunctionAndSaysLost(t *testing.T) {
	onOutOfReach(t, func(f *faulty, loses, finds func()) {
		a := f.behind(fairlock.WithLease(briefLease))
		f.within(briefLease+faultSoon, "Do", func() {
			err := a.Do(faultCtx, "x", func(ctx context.Context, _ *fairlock.Lease) error {
				loses()
				<-ctx.Done()
				if context.Cause(ctx) != fairlock.ErrLost {
					f.Errorf("the cause is %v", context.Cause(ctx))
				}
				return nil
			})
			if !errors.Is(err, fairlock.ErrLost) {
				f.Errorf("Do says %v", err)
			}
		})
		finds()
		f.until("the lease has ended", func() bool { return f.holder("x") == 0 })
		f.nobody("x")
	})
}

func TestAClaimOfWhichTheHolderCannotBeSureIsNotTrusted(t *testing.T) {
	f := newFaulty(t)
	a, b := f.behind(fairlock.WithLease(briefLease)), f.beside(fairlock.WithLease(briefLease))
	lease := b.locks("x")
	enters := f.all(f.verb("enter"), faultproxy.Observe())
	first, next := a.queues("x", 1), b.queues("x", 2)
	f.heard(2)
	enters.WaitExecuted(f, 2, faultPatience)
	f.unlocks(a.locks("y")) // by now a has the answer to that which it sent when it listened
	f.proxy.Freeze(true)
	f.unlocks(lease) // the grant is stuck on its way to a
	next.gets()
	first.waits()
	f.keeps(next.lease)
	f.proxy.Freeze(false) // and arrives when b has the lock
	f.until("a is in line again", func() bool { return f.line("x") == 1 })
	f.keeps(next.lease)
	first.waits()
	f.served(next, first)
	f.nobody("x")
}

func TestAnUnlockWithACancelledContextReleases(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		ctx, cancel := context.WithCancel(faultCtx)
		lease := f.beside().asks(ctx, "x").gets()
		w := f.beside().queues("x", 1)
		cancel()
		f.ends(lease)
		f.within(faultSoon, "Unlock", func() { f.must(lease.Unlock(ctx)) })
		f.within(faultSoon, "the hand-over", func() { w.gets() })
		f.served(w)
		f.nobody("x")
	})
}

func TestAnUnlockWithACancelledContextIsRepeatedWhenItsAnswerIsLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		ctx, cancel := context.WithCancel(faultCtx)
		lease := f.behind().asks(ctx, "x").gets()
		w := f.beside().queues("x", 1)
		cancel()
		reply := f.once(f.verb("leave"), lost)
		f.ends(lease)
		f.within(faultSoon, "Unlock", func() { f.must(lease.Unlock(ctx)) })
		reply.WaitExecuted(f, 1, faultPatience)
		f.served(w)
		f.nobody("x")
	})
}

func TestAnUnlockThatTheServerDoesNotAnswerIsDoneInTheBackground(t *testing.T) {
	f := newFaulty(t)
	a, b := f.behind(), f.beside()
	lease := a.locks("x")
	w := b.queues("x", 1)
	f.proxy.Freeze(true)
	f.ends(lease)
	f.within(1200*time.Millisecond, "Unlock", func() {
		if err := lease.Unlock(fromNow(time.Second)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
	})
	if !errors.Is(lease.Err(), fairlock.ErrNotHeld) {
		f.Errorf("after Unlock it says %v", lease.Err())
	}
	w.waits()
	f.proxy.Freeze(false)
	f.within(faultSoon, "the second Unlock", func() { f.must(lease.Unlock(faultCtx)) })
	if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrNotHeld) {
		f.Errorf("the third Unlock says %v", err)
	}
	f.served(w)
	f.nobody("x")
}
