package faults

import (
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestAnOwnersSecondHoldWhoseAnswerWasLostIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.Beside(), f.Behind()
		first := a.Locks("x", saga)
		w := f.Beside().Queues("x", 1)
		reply := f.Once(f.Verb("enter"), lost)
		f.Ends(first) // both leases are trusted at once: they have the same owner
		second := b.Locks("x", saga)
		reply.WaitExecuted(f, 1, world.Patience)
		if first.Token() != second.Token() {
			f.Errorf("the tokens are %d and %d", first.Token(), second.Token())
		}
		f.Must(first.Unlock(background))
		f.Keeps(second)
		w.Waits()
		f.Unlocks(second)
		f.Served(w)
		f.nobody("x")
	})
}

func TestAnOwnersSecondHoldExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.Beside(), f.Patient()
		first := a.Locks("x", saga)
		var second *world.Wait
		execute := f.late(f.Verb("enter"), func() { second = b.Asks(background, "x", saga) })
		f.left(func() { second.Cancel() })
		second.Fails()
		execute()
		f.Keeps(first)
		f.Unlocks(first)
		f.nobody("x")
	})
}

func TestAnOwnersReleaseWhoseAnswerWasLostDoesNotEndTheOtherHold(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.Beside(), f.Behind()
		first := a.Locks("x", saga)
		f.Ends(first)
		second := b.Locks("x", saga)
		reply := f.Once(f.Verb("leave"), lost)
		f.Unlocks(second)
		reply.WaitExecuted(f, 1, world.Patience)
		f.Keeps(first)
		f.Must(first.Unlock(background))
		f.nobody("x")
	})
}

func TestOwnersHoldsAreBothBackAfterTheServerLostItsData(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		saga, brief := fairlock.WithOwner("saga-7"), fairlock.WithLease(world.CalmLease)
		first := f.Beside(brief).Locks("x", saga)
		f.Ends(first)
		second := f.Beside(brief).Locks("x", saga)
		w := f.Beside(brief).Queues("x", 1)
		f.Loses()
		f.Until("both are back", func() bool { return f.Direct.HLen(background, f.Keys("x").Record()).Val() >= 6 })
		f.Keeps(first)
		f.Keeps(second)
		w.Waits()
		f.Must(first.Unlock(background))
		f.Keeps(second)
		w.Waits()
		f.Unlocks(second)
		f.Served(w)
		f.comesBack("x")
	})
}
