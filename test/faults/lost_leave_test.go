package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestAnUnlockWhoseAnswerWasLostIsClean(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		lease := a.Locks("x")
		reply := f.Once(f.Verb("leave"), lost)
		f.Within(world.Soon, "Unlock", func() { f.Unlocks(lease) })
		reply.WaitExecuted(f, 1, world.Patience)
		f.Free("x")
	})
}

func TestAnUnlockWhoseAnswerWasLostIsNoCleanOneIfTheLockHadBeenForced(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind() // it has never waited, so it hears no messages
		lease := a.Locks("x")
		f.Ends(lease) // it trusts the lock until it hears of the force
		f.Must(f.Beside().ForceUnlock(background, "x"))
		reply := f.Once(f.Verb("leave"), lost)
		f.Within(world.Soon, "Unlock", func() {
			if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
				f.Errorf("Unlock says %v", err)
			}
		})
		reply.WaitExecuted(f, 1, world.Patience)
		f.Free("x")
	})
}

func TestAnUnlockWhoseAnswerWasLostHandsOverOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		lease := a.Locks("x")
		first := b.Queues("x", 1)
		second := c.Queues("x", 2)
		reply := f.Once(f.Verb("leave"), lost)
		again := f.All(f.Verb("leave"), faultproxy.Observe())
		f.Within(world.Soon, "Unlock", func() { f.Unlocks(lease) })
		reply.WaitExecuted(f, 1, world.Patience)
		again.WaitExecuted(f, 2, world.Patience)
		f.Keeps(first.Gets())
		second.Waits()
		f.Served(first, second)
	})
}

func TestAnAnswerToUnlockThatWasLostWithAGrantForAnOwnWaiterDoesNotCostItsTurn(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		lease := a.Locks("x")
		first := a.Queues("x", 1)
		second := b.Queues("x", 2)
		reply := f.Once(f.Verb("leave"), lost)
		f.Within(world.Soon, "Unlock", func() { f.Unlocks(lease) })
		reply.WaitExecuted(f, 1, world.Patience)
		f.Within(world.Soon, "the hand-over", func() { first.Gets() })
		f.Served(first, second)
	})
}

func TestACancelledWaiterWhoseLeavingWasNotConfirmedHasLeft(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		first := a.Queues("x", 1)
		second := c.Queues("x", 2)
		reply := f.Once(f.Verb("leave"), lost)
		again := f.All(f.Verb("leave"), faultproxy.Observe())
		f.Within(world.Soon, "the end of a wait", func() {
			first.Cancel()
			if err := first.Fails(); !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		reply.WaitExecuted(f, 1, world.Patience)
		again.WaitExecuted(f, 2, world.Patience)
		if n := f.Line("x"); n != 1 {
			f.Errorf("%d in line", n)
		}
		f.Unlocks(holder)
		f.Served(second)
		f.Free("x")
	})
}

func TestALeavingHeadOfTheLineWhoseAnswerWasLostKeepsNobodyWaiting(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		first := a.Queues("x", 1)
		second := c.Queues("x", 2)
		reply := f.Once(f.Verb("leave"), lost)
		first.Cancel()
		f.Unlocks(holder) // the head may be granted the lock at this very moment
		reply.WaitExecuted(f, 1, world.Patience)
		if err := first.End(); err == nil {
			f.Unlocks(first.Lease)
		}
		f.Within(world.Soon, "the hand-over", func() { second.Gets() })
		f.Served(second)
	})
}

func TestAForceWhoseAnswerWasLostEndsNobodyElseWhenItIsRepeated(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Beside(), f.Beside()
		lease := a.Locks("x")
		a.Asks(background, "other").Gets() // a subscribes only when it has to wait
		waiting := a.Queues("other", 1)
		next := b.Queues("x", 1)

		admin := f.admin(f.Behind())
		reply := f.Once(f.Verb("force"), lost)
		f.Ends(lease) // for the time of one message both trust the lock
		if _, _, err := admin.Force(background, f.Keys("x"), lease.Token()); !lua.Unanswered(err) {
			f.Fatalf("the answer came: %v", err)
		}
		reply.WaitExecuted(f, 1, world.Patience)
		<-lease.Done()
		if err := context.Cause(lease.Context()); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("the forced holder is told %v", err)
		}
		if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("its Unlock says %v", err)
		}
		f.Keeps(next.Gets())
		forced, _, err := f.admin(f.Beside()).Force(background, f.Keys("x"), lease.Token())
		f.Must(err)
		if forced {
			f.Error("the repetition ended the successor's hold")
		}
		f.Keeps(next.Gets())
		f.Served(next)
		f.Unlocks(f.Oldest())
		f.Served(waiting)
		f.Free("x")
	})
}
