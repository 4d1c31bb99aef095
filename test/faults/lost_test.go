package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// onOutOfReach runs the test with each way in which the users behind the proxy can lose the server.
func onOutOfReach(t *testing.T, test func(f *faulty, loses, finds func())) {
	t.Helper()
	world.Together(t, map[string]func(*testing.T){
		"frozen": func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f, func() { f.Proxy.Freeze(true) }, func() { f.Proxy.Freeze(false) })
			})
		},
		"refused": func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f, func() { f.Proxy.Refuse(true); f.Proxy.CutAll() }, func() { f.Proxy.Refuse(false) })
			})
		},
	})
}

func TestAHolderThatCannotReachTheServerKnowsThatItsLockIsLostBeforeTheNextOneHasIt(t *testing.T) {
	onOutOfReach(t, func(f *faulty, loses, finds func()) {
		// The time of the loss is noted a tenth of the lease before the next one has the lock.
		long := fairlock.WithLease(2 * world.CalmLease)
		a, b := f.Behind(long), f.Beside(long)
		lease := a.Locks("x")
		lost := make(chan time.Time, 1)
		context.AfterFunc(lease.Context(), func() { lost <- time.Now() })
		w := b.Queues("x", 1)
		stood := f.stalls()
		loses()
		deadline := f.reaches(lease)

		w.Gets() // took fails if a still trusts its lease then
		at := <-lost
		// A goroutine may have slept while the machine stood still.
		if late := at.Sub(w.At); late >= 0 && late >= stood() {
			f.Errorf("the holder knew it %v after the next one had the lock", late)
		}
		if w.At.Before(deadline) {
			f.Errorf("the next one had it %v before trust ended", deadline.Sub(w.At))
		}
		f.Logf("lost %v before the next grant", w.At.Sub(at))
		if cause := context.Cause(lease.Context()); cause != fairlock.ErrLost {
			f.Errorf("the cause is %v", cause)
		}
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("Err is %v", lease.Err())
		}
		if lease.Deadline().After(at) {
			f.Errorf("trust is to end %v after it ended", lease.Deadline().Sub(at))
		}
		f.Ends(lease)
		f.Within(world.Soon, "Unlock", func() {
			if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
				f.Errorf("Unlock says %v", err)
			}
		})
		finds()
		f.Keeps(w.Gets())
		f.Served(w)
		f.nobody("x")
	})
}

// reaches returns when the trust in the lease has ended. deadline is when the last renewal said
// that it would.
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
	a := f.Behind(fairlock.WithLease(world.CalmLease))
	renewals := f.All(f.Verb("renew"), faultproxy.DropRequest())
	// A leave is due, because a renewal might have been executed.
	farewell := f.Once(f.Verb("leave"), faultproxy.Observe())
	lease := a.Locks("x")
	<-lease.Done()
	f.Ends(lease)
	farewell.WaitExecuted(f, 1, world.Patience)
	renewals.Remove()
	for range 2 {
		if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
	}
	other, unlocked := a.Locks("y", fairlock.LeaseFor(time.Minute)), make(chan error, 1)
	f.Ends(other)
	time.AfterFunc(100*time.Millisecond, func() { unlocked <- other.Unlock(background) })
	f.Must(a.Shutdown(fromNow(world.Patience)))
	f.Must(<-unlocked)
	if f.Holder("y") != 0 {
		f.Error("Shutdown did not wait for the holder")
	}
	f.nobody("x")
}

func TestDoOfAHolderThatCannotReachTheServerEndsItsFunctionAndSaysLost(t *testing.T) {
	onOutOfReach(t, func(f *faulty, loses, finds func()) {
		a := f.Behind(fairlock.WithLease(world.BriefLease))
		f.Within(world.BriefLease+world.Soon, "Do", func() {
			err := a.Do(background, "x", func(ctx context.Context, _ *fairlock.Lease) error {
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
		f.Until("the lease has ended", func() bool { return f.Holder("x") == 0 })
		f.nobody("x")
	})
}

func TestAClaimOfWhichTheHolderCannotBeSureIsNotTrusted(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(fairlock.WithLease(world.CalmLease)), f.Beside(fairlock.WithLease(world.CalmLease))
	lease := b.Locks("x")
	enters := f.All(f.Verb("enter"), faultproxy.Observe())
	first, next := a.Queues("x", 1), b.Queues("x", 2)
	f.Heard(2)
	enters.WaitExecuted(f, 2, world.Patience)
	f.Unlocks(a.Locks("y")) // by now a has the answer to the enter that it sent when it listened
	f.Proxy.Freeze(true)
	f.Unlocks(lease) // the grant is stuck on its way to a
	next.Gets()
	first.Waits()
	f.Keeps(next.Lease)
	f.Proxy.Freeze(false) // the grant arrives when b has the lock
	f.Until("a is in line again", func() bool { return f.Line("x") == 1 })
	f.Keeps(next.Lease)
	first.Waits()
	f.Served(next, first)
	f.nobody("x")
}

func TestAnUnlockWithACancelledContextReleases(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		ctx, cancel := context.WithCancel(background)
		lease := f.Beside().Asks(ctx, "x").Gets()
		w := f.Beside().Queues("x", 1)
		cancel()
		f.Ends(lease)
		f.Within(world.Soon, "Unlock", func() { f.Must(lease.Unlock(ctx)) })
		f.Within(world.Soon, "the hand-over", func() { w.Gets() })
		f.Served(w)
		f.nobody("x")
	})
}

func TestAnUnlockWithACancelledContextIsRepeatedWhenItsAnswerIsLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		ctx, cancel := context.WithCancel(background)
		lease := f.Behind().Asks(ctx, "x").Gets()
		w := f.Beside().Queues("x", 1)
		cancel()
		reply := f.Once(f.Verb("leave"), lost)
		f.Ends(lease)
		f.Within(world.Soon, "Unlock", func() { f.Must(lease.Unlock(ctx)) })
		reply.WaitExecuted(f, 1, world.Patience)
		f.Served(w)
		f.nobody("x")
	})
}

func TestAnUnlockThatTheServerDoesNotAnswerIsDoneInTheBackground(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(), f.Beside()
	lease := a.Locks("x")
	w := b.Queues("x", 1)
	f.Proxy.Freeze(true)
	f.Ends(lease)
	var all sync.WaitGroup
	f.timed(&all, "Unlock", time.Second, func() error {
		if err := lease.Unlock(fromNow(time.Second)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
		return nil
	})
	all.Wait()
	if !errors.Is(lease.Err(), fairlock.ErrNotHeld) {
		f.Errorf("after Unlock it says %v", lease.Err())
	}
	w.Waits()
	f.Proxy.Freeze(false)
	f.Within(world.Soon, "the second Unlock", func() { f.Must(lease.Unlock(background)) })
	if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrNotHeld) {
		f.Errorf("the third Unlock says %v", err)
	}
	f.Served(w)
	f.nobody("x")
}
