package fairlock_test

import (
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

func TestAnOwnersSecondHoldWhoseAnswerWasLostIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.beside(), f.behind()
		first := a.locks("x", saga)
		w := f.beside().queues("x", 1)
		reply := f.once(f.verb("enter"), lost)
		f.ends(first) // both are trusted at once: they are the same owner's
		second := b.locks("x", saga)
		reply.WaitExecuted(f, 1, faultPatience)
		if first.Token() != second.Token() {
			f.Errorf("the tokens are %d and %d", first.Token(), second.Token())
		}
		f.must(first.Unlock(faultCtx))
		f.keeps(second)
		w.waits()
		f.unlocks(second)
		f.served(w)
		f.nobody("x")
	})
}

func TestAnOwnersSecondHoldExecutedAfterItsCallerGaveUpHoldsNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.beside(), f.behind()
		first := a.locks("x", saga)
		var second *faultWait
		execute := f.late(f.verb("enter"), func() { second = b.asks(faultCtx, "x", saga) })
		f.left(func() { second.cancel() })
		second.fails()
		execute()
		f.keeps(first)
		f.unlocks(first)
		f.nobody("x")
	})
}

func TestAnOwnersReleaseWhoseAnswerWasLostDoesNotEndTheOtherHold(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		saga := fairlock.WithOwner("saga-7")
		a, b := f.beside(), f.behind()
		first := a.locks("x", saga)
		f.ends(first)
		second := b.locks("x", saga)
		reply := f.once(f.verb("leave"), lost)
		f.unlocks(second)
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(first)
		f.must(first.Unlock(faultCtx))
		f.nobody("x")
	})
}

func TestOwnersHoldsAreBothBackAfterTheServerLostItsData(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		saga, brief := fairlock.WithOwner("saga-7"), fairlock.WithLease(calmLease)
		first := f.beside(brief).locks("x", saga)
		f.ends(first)
		second := f.beside(brief).locks("x", saga)
		w := f.beside(brief).queues("x", 1)
		f.loses()
		f.until("both are back", func() bool { return f.direct.HLen(faultCtx, f.keys("x").Record()).Val() >= 6 })
		f.keeps(first)
		f.keeps(second)
		w.waits()
		f.must(first.Unlock(faultCtx))
		f.keeps(second)
		w.waits()
		f.unlocks(second)
		f.served(w)
		f.comesBack("x")
	})
}
