package fairlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

func TestAnUnlockWhoseAnswerWasLostIsClean(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.behind()
		lease := a.locks("x")
		reply := f.once(f.verb("leave"), lost)
		f.within(faultSoon, "Unlock", func() { f.unlocks(lease) })
		reply.WaitExecuted(f, 1, faultPatience)
		f.free("x")
	})
}

func TestAnUnlockWhoseAnswerWasLostHandsOverOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		lease := a.locks("x")
		first := b.queues("x", 1)
		second := c.queues("x", 2)
		reply := f.once(f.verb("leave"), lost)
		again := f.all(f.verb("leave"), faultproxy.Observe())
		f.within(faultSoon, "Unlock", func() { f.unlocks(lease) })
		reply.WaitExecuted(f, 1, faultPatience)
		again.WaitExecuted(f, 2, faultPatience)
		f.keeps(first.gets())
		second.waits()
		f.served(first, second)
	})
}

func TestAnAnswerToUnlockThatWasLostWithAGrantForAnOwnWaiterDoesNotCostItsTurn(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		lease := a.locks("x")
		first := a.queues("x", 1)
		second := b.queues("x", 2)
		reply := f.once(f.verb("leave"), lost)
		f.within(faultSoon, "Unlock", func() { f.unlocks(lease) })
		reply.WaitExecuted(f, 1, faultPatience)
		f.within(faultSoon, "the hand-over", func() { first.gets() })
		f.served(first, second)
	})
}

func TestACancelledWaiterWhoseLeavingWasNotConfirmedHasLeft(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		first := a.queues("x", 1)
		second := c.queues("x", 2)
		reply := f.once(f.verb("leave"), lost)
		again := f.all(f.verb("leave"), faultproxy.Observe())
		f.within(faultSoon, "the end of a wait", func() {
			first.cancel()
			if err := first.fails(); !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		reply.WaitExecuted(f, 1, faultPatience)
		again.WaitExecuted(f, 2, faultPatience)
		if n := f.line("x"); n != 1 {
			f.Errorf("%d in line", n)
		}
		f.unlocks(holder)
		f.served(second)
		f.free("x")
	})
}

func TestALeavingHeadOfTheLineWhoseAnswerWasLostKeepsNobodyWaiting(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		first := a.queues("x", 1)
		second := c.queues("x", 2)
		reply := f.once(f.verb("leave"), lost)
		first.cancel()
		f.unlocks(holder) // the head may be granted at this very moment
		reply.WaitExecuted(f, 1, faultPatience)
		if err := first.end(); err == nil {
			f.unlocks(first.lease)
		}
		f.within(faultSoon, "the hand-over", func() { second.gets() })
		f.served(second)
	})
}

func TestAForceWhoseAnswerWasLostEndsNobodyElseWhenItIsRepeated(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.beside(), f.beside()
		lease := a.locks("x")
		a.asks(faultCtx, "other").gets() // a subscribes only when it has to wait
		waiting := a.queues("other", 1)
		next := b.queues("x", 1)

		admin := lua.NewServer(f.behind().rdb, lua.Channels("fairlock"), "admin")
		reply := f.once(f.verb("force"), lost)
		f.ends(lease) // for the time of a message both trust it
		if _, _, err := admin.Force(faultCtx, f.keys("x"), lease.Token()); !lua.Unanswered(err) {
			f.Fatalf("the answer came: %v", err)
		}
		reply.WaitExecuted(f, 1, faultPatience)
		<-lease.Done()
		if err := context.Cause(lease.Context()); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("the forced holder is told %v", err)
		}
		if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("its Unlock says %v", err)
		}
		f.keeps(next.gets())
		forced, _, err := admin.Force(faultCtx, f.keys("x"), lease.Token())
		f.must(err)
		if forced {
			f.Error("the repetition ended the successor's hold")
		}
		f.keeps(next.gets())
		f.served(next)
		f.unlocks(f.oldest())
		f.served(waiting)
		f.free("x")
	})
}
