package fairlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

func TestAFullLineIsSaidSoThoughTheFirstAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		lease := b.locks("x")
		w := b.queues("x", 1)
		reply := f.once(f.verb("enter"), lost)
		second := a.asks(faultCtx, "x", fairlock.MaxWaiters(1))
		if err := second.fails(); !errors.Is(err, fairlock.ErrQueueFull) {
			f.Errorf("%v", err)
		}
		reply.WaitExecuted(f, 1, faultPatience)
		f.until("it has left", func() bool { return f.line("x") == 1 })
		f.unlocks(lease)
		f.served(w)
		f.nobody("x")
	})
}

func TestWhoeverMadeTheLineFullIsNotToldSoByItsHeartbeat(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside(fairlock.WithLease(briefLease))
		lease := b.locks("x")
		w := a.asks(faultCtx, "x", fairlock.MaxWaiters(1))
		w.inLine(1)
		more := f.all(f.verb("enter"), faultproxy.Observe())
		more.WaitExecuted(f, 2, faultPatience)
		w.waits()
		f.unlocks(lease)
		f.served(w)
		f.nobody("x")
	})
}

func TestAWaitThatEndsByItsTimeSaysWhoHoldsTheLockThoughTheFirstAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		lease := b.locks("x")
		w := b.queues("x", 1)
		reply := f.once(f.verb("enter"), lost)
		lateness := f.lateness(800 * time.Millisecond)
		second := a.asks(faultCtx, "x", fairlock.WaitAtMost(800*time.Millisecond))
		err := second.fails()
		late := lateness()
		reply.WaitExecuted(f, 1, faultPatience)
		var held *fairlock.HeldError
		if !errors.Is(err, fairlock.ErrHeld) || !errors.As(err, &held) {
			f.Fatalf("%v", err)
		}
		if held.Owner != lease.Owner() || held.Waiting < 1 || held.Remaining < 20*time.Second || held.Remaining > 30*time.Second {
			f.Errorf("%+v", *held)
		}
		if second.took < 800*time.Millisecond || second.took > 890*time.Millisecond+late {
			f.Errorf("it took %v", second.took)
		}
		f.until("it has left", func() bool { return f.line("x") == 1 })
		f.unlocks(lease)
		f.served(w)
		f.nobody("x")
	})
}

func TestATryWhoseAnswerWasLostSaysWhoHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		lease := b.locks("x")
		reply := f.once(f.verb("enter"), lost)
		_, err := a.TryLock(faultCtx, "x")
		reply.WaitExecuted(f, 1, faultPatience)
		var held *fairlock.HeldError
		if !errors.As(err, &held) || held.Owner != lease.Owner() || held.Waiting != 0 {
			f.Errorf("%v", err)
		}
		f.unlocks(lease)
		f.nobody("x")
	})
}

func TestAWaitThatEndsByItsTimeAtTheServersSilenceDoesNotSayThatTheLockIsHeld(t *testing.T) {
	f := newFaulty(t)
	a := f.behind()
	f.unlocks(a.locks("x"))
	enter := f.all(f.verb("enter"), faultproxy.HoldRequest())
	lateness := f.lateness(200 * time.Millisecond)
	w := a.asks(faultCtx, "x", fairlock.WaitAtMost(200*time.Millisecond))
	if err := w.fails(); errors.Is(err, fairlock.ErrHeld) {
		f.Errorf("nobody holds it, and the server has said nothing: %v", err)
	}
	if w.took > 290*time.Millisecond+lateness() {
		f.Errorf("it took %v", w.took)
	}
	enter.Remove()
	enter.Release()
	enter.WaitExecuted(f, enter.Hits(), faultPatience)
	f.until("it has left", func() bool { return f.holder("x") == 0 && f.line("x") == 0 })
	f.nobody("x")
}

func TestTheFirstLookAtTheServerIsPartOfTheTimeToWait(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		lease := b.locks("x")
		look := f.once(faultproxy.Command("info"), faultproxy.DelayReply(500*time.Millisecond))
		lateness := f.lateness(900 * time.Millisecond)
		w := a.asks(faultCtx, "x", fairlock.WaitAtMost(900*time.Millisecond))
		if err := w.fails(); !errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("%v", err)
		}
		if w.took > 990*time.Millisecond+lateness() {
			f.Errorf("it took %v", w.took)
		}
		look.WaitExecuted(f, 1, faultPatience)
		f.until("it has left", func() bool { return f.line("x") == 0 })
		f.unlocks(lease)
		f.nobody("x")
	})
}
