package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// late holds the next request that matches, and returns when the request is held. execute releases
// the request, and returns when the server has executed it.
func (f *faulty) late(match func([]string) bool, provoke func()) (execute func()) {
	f.Helper()
	held := f.Once(match, faultproxy.HoldRequest())
	provoke()
	held.WaitHit(f, 1, world.Patience)
	return func() {
		f.Helper()
		held.Release()
		held.WaitExecuted(f, 1, world.Patience)
	}
}

// theSecond matches the second request that match matches.
func theSecond(match func([]string) bool) func([]string) bool {
	var n atomic.Int32
	return func(args []string) bool { return match(args) && n.Add(1) == 2 }
}

// left has act cause a leave, and returns when the server has executed the leave.
func (f *faulty) left(act func()) {
	f.Helper()
	leave := f.Once(f.Verb("leave"), faultproxy.Observe())
	act()
	leave.WaitExecuted(f, 1, world.Patience)
}

// nobody fails if a ticket holds the lock or waits for it.
func (f *faulty) nobody(name string) {
	f.Helper()
	if f.Holder(name) != 0 || f.Line(name) != 0 {
		f.Fatalf("there is a ghost:\n%s", redistest.Dump(f.Direct))
	}
	f.Free(name)
}

// endsUpFree fails unless a newcomer soon has the lock, with nobody in line. A call that gave up
// may have the lock for a moment: its request and its leave may both be under way.
func (f *faulty) endsUpFree(name string) {
	f.Helper()
	fresh := f.Beside()
	f.Within(world.Claim*4/5, "the end of all leaves", func() {
		f.Until("nobody is left", func() bool {
			lease, err := fresh.TryLock(background, name)
			if errors.Is(err, fairlock.ErrHeld) {
				return false
			}
			f.Must(err)
			f.Took(lease)
			f.Unlocks(lease)
			return f.Line(name) == 0
		})
	})
	f.Must(fresh.Close())
}

func TestALockExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Patient()
		var w *world.Wait
		execute := f.late(f.Verb("enter"), func() { w = a.Asks(background, "x") })
		f.left(func() {
			w.Cancel()
			if err := w.Fails(); !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		execute()
		f.nobody("x")
	})
}

func TestATryExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		// Its timeout is long: if the caller slept through the end of its context and of the
		// request, it might look at the request's first, and ask again.
		a := f.Patient()
		f.meet(a) // a try has no time for that
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		tried := make(chan error, 1)
		var execute func()
		f.left(func() {
			execute = f.late(f.Verb("enter"), func() {
				go func() {
					_, err := a.TryLock(ctx, "x")
					tried <- err
				}()
			})
			cancel()
			if err := <-tried; !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		execute()
		f.nobody("x")
		if n := f.Proxy.Count(f.Verb("enter", "{x}")); n != 1 {
			f.Errorf("%d requests for a caller who had given up after one", n)
		}
	})
}

func TestALockExecutedAfterItsCallerGaveUpDoesNotStandInLine(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		var w *world.Wait
		execute := f.late(f.Verb("enter"), func() { w = a.Asks(background, "x") })
		f.left(func() { w.Cancel() })
		w.Fails()
		execute()
		if n := f.Line("x"); n != 0 {
			f.Fatalf("a ghost stands in line:\n%s", redistest.Dump(f.Direct))
		}
		next := c.Queues("x", 1)
		f.Unlocks(holder)
		f.Within(world.Soon, "the hand-over", func() { next.Gets() })
		f.Served(next)
		f.nobody("x")
	})
}

func TestALockExecutedAfterItsLockerWasClosedHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		const silence = 3 * time.Second // Close waits until the client gives up the request that is held
		a := f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: silence})
		var w *world.Wait
		execute := f.late(f.Verb("enter"), func() { w = a.Asks(background, "x") })
		f.left(func() { f.Within(silence+world.Soon, "Close", func() { f.Must(a.Close()) }) })
		if err := w.Fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Errorf("%v", err)
		}
		execute()
		f.nobody("x")
	})
}

func TestAHeartbeatExecutedAfterItsWaiterLeftDoesNotStandInLine(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		var w *world.Wait
		// The second enter comes when its subscription is up.
		execute := f.late(theSecond(f.Verb("enter")), func() { w = a.Queues("x", 1) })
		f.left(func() { w.Cancel() })
		w.Fails()
		execute()
		if n := f.Line("x"); n != 0 {
			f.Fatalf("a ghost stands in line:\n%s", redistest.Dump(f.Direct))
		}
		f.Unlocks(holder)
		f.nobody("x")
	})
}

func TestAHeartbeatExecutedAfterTheLockWasFreedDoesNotTakeIt(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Patient(), f.Beside()
		f.meet(a, b)
		f.Ends(b.Locks("x", fairlock.LeaseFor(4*time.Second))) // a waits until this lease ends
		enter := f.Verb("enter")
		var w *world.Wait
		execute := f.late(func(args []string) bool { return enter(args) && f.Holder("x") == 0 }, func() {
			w = a.Queues("x", 1)
		})
		f.left(func() { w.Cancel() })
		w.Fails()
		execute()
		f.nobody("x")
	})
}

func TestARenewalExecutedAfterTheReleaseHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind(fairlock.WithLease(world.CalmLease))
		lease := a.Locks("x")
		execute := f.late(f.Verb("renew"), func() {})
		f.Unlocks(lease)
		execute()
		f.nobody("x")
	})
}

func TestARenewalExecutedAfterItsLeaseWasLostKeepsNobodyWaiting(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(fairlock.WithLease(world.CalmLease)), f.Beside(fairlock.WithLease(world.CalmLease))
		renewals := f.All(f.Verb("renew"), faultproxy.HoldRequest())
		lease := a.Locks("x")
		w := b.Queues("x", 1)
		renewals.WaitHit(f, 1, world.Patience)
		<-lease.Done()
		lost := time.Now()
		// The server has the record for another tenth of the lease, and now prolongs it for nobody.
		renewals.Release()
		renewals.WaitExecuted(f, 1, world.Patience)
		f.Ends(lease)
		w.Gets()
		// Before the end of what was prolonged, and before its heartbeat.
		if took := w.At.Sub(lost); took > world.Soon {
			f.Errorf("the next one has the lock %v after it was lost", took)
		}
		f.Served(w)
		f.nobody("x")
	})
}

func TestAFixedLeaseWhoseConfirmationIsLateIsNotHandedOutBefore(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		lease := b.Locks("x")
		w := a.Queues("x", 1, fairlock.LeaseFor(time.Minute))
		renewals := f.All(f.Verb("renew"), faultproxy.HoldRequest())
		f.Unlocks(lease)
		renewals.WaitHit(f, 2, world.Patience) // the first renewal, and the second beside it
		w.Waits()
		renewals.Remove()
		renewals.Release()
		f.Keeps(w.Gets())
		f.Served(w)
		f.nobody("x")
	})
}

func TestAReleaseExecutedAgainLaterDoesNotEndTheNextHold(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		lease := a.Locks("x")
		execute := f.late(f.Verb("leave"), func() { f.Unlocks(lease) }) // by a second request
		next := a.Locks("x")
		w := b.Queues("x", 1)
		execute()
		f.Keeps(next)
		w.Waits()
		f.Unlocks(next)
		f.Served(w)
		f.nobody("x")
	})
}

func TestALeavingExecutedAgainLaterDoesNotEndTheNextWait(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		gone := a.Queues("x", 1)
		execute := f.late(f.Verb("leave"), func() { gone.Cancel() })
		gone.Fails()
		f.Until("the second leave is executed", func() bool { return f.Line("x") == 0 })
		first := a.Queues("x", 1)
		second := c.Queues("x", 2)
		execute()
		f.Unlocks(holder)
		f.Served(first, second)
		f.nobody("x")
	})
}

func TestAForceExecutedLaterEndsNobodyElse(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Beside(), f.Beside()
		admin := f.admin(f.Behind())
		lease := a.Locks("x")
		execute := f.late(f.Verb("force"), func() {
			if _, _, err := admin.Force(background, f.Keys("x"), lease.Token()); !lua.Unanswered(err) {
				f.Fatalf("%v", err)
			}
		})
		w := b.Queues("x", 1)
		f.Unlocks(lease)
		next := w.Gets()
		execute()
		f.Keeps(next)
		f.Served(w)
		f.nobody("x")
	})
}

// The grant and the answer arrive on different connections. If the ticket left a mark, the server
// would keep the mark for a minute.
func TestAGrantThatOvertakesItsAnswerLeavesNoMark(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		// All else has to happen in that time. The call returns when its request is given up.
		const silence = 3 * time.Second
		a, b := f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: silence}), f.Beside()
		other := b.Locks("another")
		first := a.Queues("another", 1)
		f.Heard(1) // now a has its subscription
		f.Unlocks(other)
		f.Served(first)
		holder := b.Locks("x")
		f.Once(f.Verb("enter"), faultproxy.SwallowReplySilently())
		w := a.Asks(background, "x")
		f.Until("it is in line", func() bool { return f.Line("x") == 1 })
		f.Unlocks(holder)
		f.Within(silence+world.Soon, "the hand-over", func() { f.Unlocks(w.Gets()) })
		if marks := f.Direct.ZRange(background, f.Prefix+":waiters:{x}", 0, -1).Val(); len(marks) > 0 {
			f.Errorf("there stays %v", marks)
		}
	})
}
