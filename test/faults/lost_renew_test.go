package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestALeaseWhoseRenewalWasNotConfirmedIsKept(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(fairlock.WithLease(world.CalmLease)), f.Beside()
		lease := a.Locks("x")
		w := b.Queues("x", 1)
		reply := f.Once(f.Verb("renew"), lost)
		more := f.All(f.Verb("renew"), faultproxy.Observe())
		reply.WaitExecuted(f, 1, world.Patience)
		more.WaitExecuted(f, 3, world.Patience) // the first of them is the lost one
		f.Keeps(lease)
		w.Waits()
		f.Unlocks(lease)
		f.Served(w)
		f.Free("x")
	})
}

func TestAClaimWhoseConfirmationWasLostBecomesALease(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(fairlock.WithLease(world.CalmLease)), f.Beside()
		holder := b.Locks("x")
		w := a.Queues("x", 1)
		reply := f.Once(f.Verb("renew"), lost)
		more := f.All(f.Verb("renew"), faultproxy.Observe())
		f.Unlocks(holder)
		lease := w.Gets()
		reply.WaitExecuted(f, 1, world.Patience)
		more.WaitExecuted(f, 3, world.Patience)
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestAFixedLeaseWhoseConfirmationWasLostIsConfirmedBeforeLockReturns(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		w := a.Queues("x", 1, fairlock.LeaseFor(time.Minute))
		reply := f.Once(f.Verb("renew"), lost)
		f.Unlocks(holder)
		lease := w.Gets()
		reply.WaitExecuted(f, 1, world.Patience)
		f.Keeps(lease)
		if record := f.Direct.PTTL(background, f.Keys("x").Record()).Val(); record < 50*time.Second {
			f.Errorf("a fixed lease of a minute is %v when Lock returns", record)
		}
		f.Unlocks(lease)
		f.Free("x")
	})
}

// The claim ran out before the call returned, so the caller has not had the lock yet.
func TestACallWhoseFixedLeaseCannotBeConfirmedInTimeWaitsOn(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(), f.Beside()
	holder := b.Locks("x")
	w := a.Queues("x", 1, fairlock.LeaseFor(time.Minute))
	stuck := f.All(f.Verb("renew"), faultproxy.HoldRequest())
	f.Unlocks(holder)
	stuck.WaitHit(f, 1, world.Patience)
	next := b.Locks("x") // the claim is over
	stuck.Remove()
	stuck.Release()
	f.Unlocks(next)
	lease := w.Gets()
	f.Keeps(lease)
	f.Unlocks(lease)
	f.Free("x")
}

func TestAnExtensionWhoseAnswerWasLostIsRepeated(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		lease := a.Locks("x")
		reply := f.Once(f.Verb("renew"), lost)
		f.Within(world.Soon, "Extend", func() { f.Must(lease.Extend(background, time.Minute)) })
		reply.WaitExecuted(f, 1, world.Patience)
		if left := time.Until(lease.Deadline()); left < time.Minute-world.Soon {
			f.Errorf("it is trusted for %v", left)
		}
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestReentryGoesOnWhileRenewalsAreLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind(fairlock.WithLease(world.CalmLease))
		lease := a.Locks("x")
		reply := f.Once(f.Verb("renew"), lost)
		reply.WaitExecuted(f, 1, world.Patience)
		inner, err := a.Lock(lease.Context(), "x")
		f.Must(err)
		if inner.Depth() != 2 || inner.Token() != lease.Token() {
			f.Errorf("depth %d, token %d", inner.Depth(), inner.Token())
		}
		f.Must(inner.Unlock(background))
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestTheDepthIsRightSoonAfterANestedCallGaveUpBeforeItsReplicasAnswered(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		u := f.Patient()
		outer := u.Locks("x")
		depth := func() int {
			state, err := u.Inspect(background, "x")
			f.Must(err)
			return state.Holder.Depth
		}
		ctx, cancel := context.WithCancel(outer.Context())
		defer cancel()
		nested := u.Asks(ctx, "x", fairlock.WithReplicas(1, 2500*time.Millisecond))
		f.Until("the server counts the nested call", func() bool { return depth() == 2 })
		cancel()
		if err := nested.Fails(); !errors.Is(err, context.Canceled) {
			f.Errorf("it says %v", err)
		}
		soon := 6 * time.Second // the answer takes 2.5 s, and the depth is told in a second more
		world.UntilWithin(f, soon, "the server counts it no more", func() bool { return depth() == 1 })
		f.Unlocks(outer)
	})
}
