package fairlock_test

import (
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

// briefLease is one whose renewals a test can wait for.
const briefLease = 600 * time.Millisecond

func TestALeaseWhoseRenewalWasNotConfirmedIsKept(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(fairlock.WithLease(briefLease)), f.beside()
		lease := a.locks("x")
		w := b.queues("x", 1)
		reply := f.once(f.verb("renew"), lost)
		more := f.all(f.verb("renew"), faultproxy.Observe())
		reply.WaitExecuted(f, 1, faultPatience)
		more.WaitExecuted(f, 3, faultPatience) // the first of them is the lost one
		f.keeps(lease)
		w.waits()
		f.unlocks(lease)
		f.served(w)
		f.free("x")
	})
}

func TestAClaimWhoseConfirmationWasLostBecomesALease(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(fairlock.WithLease(briefLease)), f.beside()
		holder := b.locks("x")
		w := a.queues("x", 1)
		reply := f.once(f.verb("renew"), lost)
		more := f.all(f.verb("renew"), faultproxy.Observe())
		f.unlocks(holder)
		lease := w.gets()
		reply.WaitExecuted(f, 1, faultPatience)
		more.WaitExecuted(f, 3, faultPatience)
		f.keeps(lease)
		f.unlocks(lease)
		f.free("x")
	})
}

func TestAFixedLeaseWhoseConfirmationWasLostIsConfirmedBeforeLockReturns(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		w := a.queues("x", 1, fairlock.LeaseFor(time.Minute))
		reply := f.once(f.verb("renew"), lost)
		f.unlocks(holder)
		lease := w.gets()
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(lease)
		if record := f.direct.PTTL(faultCtx, f.keys("x").Record()).Val(); record < 50*time.Second {
			f.Errorf("a fixed lease of a minute is %v when Lock returns", record)
		}
		f.unlocks(lease)
		f.free("x")
	})
}

// The claim ran out before the caller had anything of it, so the call has not had the lock yet.
func TestACallWhoseFixedLeaseCannotBeConfirmedInTimeWaitsOn(t *testing.T) {
	f := newFaulty(t)
	a, b := f.behind(), f.beside()
	holder := b.locks("x")
	w := a.queues("x", 1, fairlock.LeaseFor(time.Minute))
	stuck := f.all(f.verb("renew"), faultproxy.HoldRequest())
	f.unlocks(holder)
	stuck.WaitHit(f, 1, faultPatience)
	next := b.locks("x") // the claim is over
	stuck.Remove()
	stuck.Release()
	f.unlocks(next)
	lease := w.gets()
	f.keeps(lease)
	f.unlocks(lease)
	f.free("x")
}

func TestAnExtensionWhoseAnswerWasLostIsRepeated(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.behind()
		lease := a.locks("x")
		reply := f.once(f.verb("renew"), lost)
		f.within(faultSoon, "Extend", func() { f.must(lease.Extend(faultCtx, time.Minute)) })
		reply.WaitExecuted(f, 1, faultPatience)
		if left := time.Until(lease.Deadline()); left < time.Minute-faultSoon {
			f.Errorf("it is trusted for %v", left)
		}
		f.keeps(lease)
		f.unlocks(lease)
		f.free("x")
	})
}

func TestReentryGoesOnWhileRenewalsAreLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.behind(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		reply := f.once(f.verb("renew"), lost)
		reply.WaitExecuted(f, 1, faultPatience)
		inner, err := a.Lock(lease.Context(), "x")
		f.must(err)
		if inner.Depth() != 2 || inner.Token() != lease.Token() {
			f.Errorf("depth %d, token %d", inner.Depth(), inner.Token())
		}
		f.must(inner.Unlock(faultCtx))
		f.keeps(lease)
		f.unlocks(lease)
		f.free("x")
	})
}
