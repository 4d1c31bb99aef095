package fairlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// late holds the next request that matches back. It returns when the request is held; execute lets it go to the server and
// returns when it has been executed.
func (f *faulty) late(match func([]string) bool, provoke func()) (execute func()) {
	f.Helper()
	held := f.once(match, faultproxy.HoldRequest())
	provoke()
	held.WaitHit(f, 1, faultPatience)
	return func() {
		f.Helper()
		held.Release()
		held.WaitExecuted(f, 1, faultPatience)
	}
}

// faultSecond matches what matches for the second time.
func faultSecond(match func([]string) bool) func([]string) bool {
	var n atomic.Int32
	return func(args []string) bool { return match(args) && n.Add(1) == 2 }
}

// left has act cause a leave and returns when that has been executed.
func (f *faulty) left(act func()) {
	f.Helper()
	leave := f.once(f.verb("leave"), faultproxy.Observe())
	act()
	leave.WaitExecuted(f, 1, faultPatience)
}

// nobody fails if anybody holds the lock or waits for it.
func (f *faulty) nobody(name string) {
	f.Helper()
	if f.holder(name) != 0 || f.line(name) != 0 {
		f.Fatalf("there is a ghost:\n%s", f.dump())
	}
	f.free(name)
}

func TestALockExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind()
		var w *faultWait
		execute := f.late(f.verb("enter"), func() { w = a.asks(faultCtx, "x") })
		f.left(func() {
			w.cancel()
			if err := w.fails(); !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		execute()
		f.nobody("x")
	})
}

func TestATryExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind()
		f.unlocks(a.locks("another")) // the first look at the server is not part of the little time below
		execute := f.late(f.verb("enter"), func() {
			f.left(func() {
				ctx, cancel := context.WithTimeout(faultCtx, 200*time.Millisecond)
				defer cancel()
				if lease, err := a.TryLock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
					f.Errorf("%v, %v", lease, err)
				}
			})
		})
		execute()
		f.nobody("x")
	})
}

func TestALockExecutedAfterItsCallerGaveUpDoesNotStandInLine(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		var w *faultWait
		execute := f.late(f.verb("enter"), func() { w = a.asks(faultCtx, "x") })
		f.left(func() { w.cancel() })
		w.fails()
		execute()
		if n := f.line("x"); n != 0 {
			f.Fatalf("a ghost stands in line:\n%s", f.dump())
		}
		next := c.queues("x", 1)
		f.unlocks(holder)
		f.within(faultSoon, "the hand-over", func() { next.gets() })
		f.served(next)
		f.nobody("x")
	})
}

func TestALockExecutedAfterItsLockerWasClosedHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind()
		var w *faultWait
		execute := f.late(f.verb("enter"), func() { w = a.asks(faultCtx, "x") })
		f.left(func() { f.within(faultSoon, "Close", func() { f.must(a.Close()) }) })
		if err := w.fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Errorf("%v", err)
		}
		execute()
		f.nobody("x")
	})
}

func TestAHeartbeatExecutedAfterItsWaiterLeftDoesNotStandInLine(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		var w *faultWait
		execute := f.late(faultSecond(f.verb("enter")), func() { w = a.queues("x", 1) }) // when its subscription is up
		f.left(func() { w.cancel() })
		w.fails()
		execute()
		if n := f.line("x"); n != 0 {
			f.Fatalf("a ghost stands in line:\n%s", f.dump())
		}
		f.unlocks(holder)
		f.nobody("x")
	})
}

func TestAHeartbeatExecutedAfterTheLockWasFreedDoesNotTakeIt(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		f.ends(b.locks("x", fairlock.LeaseFor(200*time.Millisecond))) // which a waits to end
		enter := f.verb("enter")
		var w *faultWait
		execute := f.late(func(args []string) bool { return enter(args) && f.holder("x") == 0 }, func() {
			w = a.queues("x", 1)
		})
		f.left(func() { w.cancel() })
		w.fails()
		execute()
		f.nobody("x")
	})
}

func TestARenewalExecutedAfterTheReleaseHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		execute := f.late(f.verb("renew"), func() {})
		f.unlocks(lease)
		execute()
		f.nobody("x")
	})
}

func TestARenewalExecutedAfterItsLeaseWasLostKeepsNobodyWaiting(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(fairlock.WithLease(briefLease)), f.beside(fairlock.WithLease(briefLease))
		renewals := f.all(f.verb("renew"), faultproxy.HoldRequest())
		lease := a.locks("x")
		w := b.queues("x", 1)
		renewals.WaitHit(f, 1, faultPatience)
		<-lease.Done()
		lost := time.Now()
		// The server still has the record, for another tenth of the lease, and now prolongs it for nobody.
		renewals.Release()
		renewals.WaitExecuted(f, 1, faultPatience)
		f.ends(lease)
		w.gets()
		if took := w.at.Sub(lost); took > briefLease {
			f.Errorf("the next one has the lock %v after it was lost", took)
		}
		f.served(w)
		f.nobody("x")
	})
}

func TestAFixedLeaseWhoseConfirmationIsLateIsNotHandedOutBefore(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		lease := b.locks("x")
		w := a.queues("x", 1, fairlock.LeaseFor(time.Minute))
		renewals := f.all(f.verb("renew"), faultproxy.HoldRequest())
		f.unlocks(lease)
		renewals.WaitHit(f, 2, faultPatience) // the first and the second beside it
		w.waits()
		renewals.Remove()
		renewals.Release()
		f.keeps(w.gets())
		f.served(w)
		f.nobody("x")
	})
}

func TestAReleaseExecutedAgainLaterDoesNotEndTheNextHold(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		lease := a.locks("x")
		execute := f.late(f.verb("leave"), func() { f.unlocks(lease) }) // by a second request
		next := a.locks("x")
		w := b.queues("x", 1)
		execute()
		f.keeps(next)
		w.waits()
		f.unlocks(next)
		f.served(w)
		f.nobody("x")
	})
}

func TestALeavingExecutedAgainLaterDoesNotEndTheNextWait(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		gone := a.queues("x", 1)
		execute := f.late(f.verb("leave"), func() { gone.cancel() })
		gone.fails()
		f.until("the second leave is executed", func() bool { return f.line("x") == 0 })
		first := a.queues("x", 1)
		second := c.queues("x", 2)
		execute()
		f.unlocks(holder)
		f.served(first, second)
		f.nobody("x")
	})
}

func TestAForceExecutedLaterEndsNobodyElse(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.beside(), f.beside()
		admin := lua.NewServer(f.behind().rdb, lua.Channels("fairlock"), "admin")
		lease := a.locks("x")
		execute := f.late(f.verb("force"), func() {
			if _, _, err := admin.Force(faultCtx, f.keys("x"), lease.Token()); !lua.Unanswered(err) {
				f.Fatalf("%v", err)
			}
		})
		w := b.queues("x", 1)
		f.unlocks(lease)
		next := w.gets()
		execute()
		f.keeps(next)
		f.served(w)
		f.nobody("x")
	})
}

// The grant is told on another connection than the one on which the answer comes. A mark for each would be kept for a minute.
func TestAGrantThatOvertakesItsAnswerLeavesNoMark(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		other := b.locks("another")
		first := a.queues("another", 1) // now it has its subscription
		f.unlocks(other)
		f.served(first)
		holder := b.locks("x")
		f.once(f.verb("enter"), faultproxy.SwallowReplySilently())
		w := a.asks(faultCtx, "x")
		f.until("it is in line", func() bool { return f.line("x") == 1 })
		f.unlocks(holder)
		f.within(faultSoon, "the hand-over", func() { f.unlocks(w.gets()) })
		if marks := f.direct.ZRange(faultCtx, f.prefix+":waiters:{x}", 0, -1).Val(); len(marks) > 0 {
			f.Errorf("there stays %v", marks)
		}
	})
}
