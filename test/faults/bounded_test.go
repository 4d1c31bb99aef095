package faults

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestAFullLineIsSaidSoThoughTheFirstAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		lease := b.Locks("x")
		w := b.Queues("x", 1)
		reply := f.Once(f.Verb("enter"), lost)
		second := a.Asks(background, "x", fairlock.MaxWaiters(1))
		if err := second.Fails(); !errors.Is(err, fairlock.ErrQueueFull) {
			f.Errorf("%v", err)
		}
		reply.WaitExecuted(f, 1, world.Patience)
		f.Until("it has left", func() bool { return f.Line("x") == 1 })
		f.Unlocks(lease)
		f.Served(w)
		f.nobody("x")
	})
}

func TestWhoeverMadeTheLineFullIsNotToldSoByItsHeartbeat(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside(fairlock.WithLease(world.CalmLease))
		lease := b.Locks("x")
		w := a.Asks(background, "x", fairlock.MaxWaiters(1))
		w.InLine(1)
		more := f.All(f.Verb("enter"), faultproxy.Observe())
		more.WaitExecuted(f, 2, world.Patience)
		w.Waits()
		f.Unlocks(lease)
		f.Served(w)
		f.nobody("x")
	})
}

func TestAWaitThatEndsByItsTimeSaysWhoHoldsTheLockThoughTheFirstAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		lease := b.Locks("x")
		w := b.Queues("x", 1)
		f.meet(a)
		reply := f.Once(f.Verb("enter"), lost)
		const bound = 2 * time.Second // the lost answer takes 300 ms, and a heartbeat comes later
		lateness := f.lateness(bound)
		second := a.Asks(background, "x", fairlock.WaitAtMost(bound))
		err := second.Fails()
		late := lateness()
		reply.WaitExecuted(f, 1, world.Patience)
		var held *fairlock.HeldError
		if !errors.Is(err, fairlock.ErrHeld) || !errors.As(err, &held) {
			f.Fatalf("%v", err)
		}
		if held.Owner != lease.Owner() || held.Waiting < 1 || held.Remaining < 20*time.Second || held.Remaining > 30*time.Second {
			f.Errorf("%+v", *held)
		}
		if second.Took < bound || second.Took > bound+400*time.Millisecond+late {
			f.Errorf("it took %v", second.Took)
		}
		f.Until("it has left", func() bool { return f.Line("x") == 1 })
		f.Unlocks(lease)
		f.Served(w)
		f.nobody("x")
	})
}

func TestATryWhoseAnswerWasLostSaysWhoHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		lease := b.Locks("x")
		f.meet(a)
		_, err := f.tries(a, lost)
		var held *fairlock.HeldError
		if !errors.As(err, &held) || held.Owner != lease.Owner() || held.Waiting != 0 {
			f.Errorf("%v", err)
		}
		f.Unlocks(lease)
		f.nobody("x")
	})
}

func TestAWaitThatEndsByItsTimeAtTheServersSilenceDoesNotSayThatTheLockIsHeld(t *testing.T) {
	f := newFaulty(t)
	// A request takes longer than the bound.
	a := f.Patient()
	f.Unlocks(a.Locks("x"))
	enter := f.All(f.Verb("enter"), faultproxy.HoldRequest())
	w := a.Asks(background, "x", fairlock.WaitAtMost(200*time.Millisecond))
	if err := w.Fails(); errors.Is(err, fairlock.ErrHeld) {
		f.Errorf("nobody holds it, and the server has said nothing: %v", err)
	}
	if w.Took > world.Soon {
		f.Errorf("it took %v", w.Took)
	}
	enter.Remove()
	enter.Release()
	enter.WaitExecuted(f, enter.Hits(), world.Patience)
	f.Until("it has left", func() bool { return f.Holder("x") == 0 && f.Line("x") == 0 })
	f.nobody("x")
}

func TestAWaitThatEndsSaysWhyItsLastRequestFailed(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.Patient()
		f.Unlocks(a.Locks("x"))
		holder := f.Beside().Locks("x")
		enter := f.Verb("enter")
		failed := func(w *world.Wait) error {
			w.Cancel()
			var waited *fairlock.WaitError
			if err := w.Fails(); !errors.As(err, &waited) || !errors.Is(err, context.Canceled) {
				f.Fatalf("%v", err)
			}
			return waited.Failure
		}
		seen := f.All(enter, faultproxy.Observe())
		w := a.Asks(background, "x")
		seen.WaitExecuted(f, 1, world.Patience)
		if err := failed(w); err != nil {
			f.Errorf("it was answered: %v", err)
		}
		seen.Remove()
		lost := f.All(enter, faultproxy.SwallowReply())
		w = a.Asks(background, "x")
		lost.WaitExecuted(f, 3, world.Patience)
		if err := failed(w); err == nil || !strings.Contains(w.Err.Error(), "the last request failed: "+err.Error()) {
			f.Errorf("%v: %v", err, w.Err)
		}
		lost.Remove()
		f.Unlocks(holder)
	})
}

// bothWait has two calls wait for x, of either kind. The options are for the second.
func bothWait(u *world.User, options ...fairlock.LockOption) (first, second *world.Wait) {
	return u.WaitsPlainly("x"), u.WaitsPlainly("x", options...)
}

func TestARefusalNamesTheHolderOfWhomAMessageTold(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.Behind()
		lease := f.Beside().Locks("x")
		// Before a heartbeat, whose answer would tell it, too.
		first, second := bothWait(a, fairlock.WaitAtMost(2*time.Second))
		f.Unlocks(lease)
		lease = first.Gets()
		var held *fairlock.HeldError
		if err := second.Fails(); !errors.As(err, &held) || held.Owner != lease.Owner() {
			f.Errorf("%s has the lock: %v", lease.Owner(), err)
		}
		f.Unlocks(lease)
		f.Until("it has left", func() bool { return f.Line("x") == 0 && f.Holder("x") == 0 })
		f.nobody("x")
	})
}

func TestATryThatItsContextEndsSaysWhyItsRequestFailed(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.Behind()
		f.Unlocks(a.Locks("x"))
		for range 10 { // if the machine stands still, a try insists in vain
			lost := f.All(f.Verb("enter"), faultproxy.SwallowReply())
			ctx, cancel := context.WithCancel(background)
			tried, began := make(chan error, 1), time.Now()
			go func() {
				_, err := a.TryLock(ctx, "x")
				tried <- err
			}()
			f.Until("it has tried twice", func() bool { return lost.Executed() >= 2 || len(tried) > 0 })
			cancel()
			err, took := <-tried, time.Since(began)
			again := took > rules.InsistFor
			var waited *fairlock.WaitError
			if !again && (!errors.As(err, &waited) || waited.Failure == nil) {
				f.Errorf("%v", err)
			}
			lost.Remove()
			f.endsUpFree("x") // a third request may have been under way
			if !again {
				return
			}
		}
		f.Error("no try was tried twice")
	})
}

// overdue is a context that is not done after its deadline.
type overdue struct {
	context.Context
	at time.Time
}

func (o overdue) Deadline() (time.Time, bool) { return o.at, true }

func TestATryWhoseContextIsNotDoneAfterItsDeadlineEndsAllTheSame(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.User(&redis.Options{Addr: f.Proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		f.Unlocks(a.Locks("x"))
		enter := f.All(f.Verb("enter"), faultproxy.HoldRequest())
		never, cancel := context.WithCancel(background)
		defer cancel()
		tried := make(chan error, 1)
		go func() {
			_, err := a.TryLock(overdue{never, time.Now().Add(50 * time.Millisecond)}, "x")
			tried <- err
		}()
		select {
		case err := <-tried:
			if err == nil {
				f.Errorf("it has the lock, and no answer came")
			}
		case <-time.After(world.Patience):
			f.Errorf("it does not end")
			cancel()
			f.Logf("it ended with its context: %v", <-tried)
		}
		enter.Remove()
		enter.Release()
		enter.WaitExecuted(f, enter.Hits(), world.Patience)
		f.Until("it has left", func() bool { return f.Holder("x") == 0 })
		f.nobody("x")
	})
}

func TestAWaitThatEndsSaysWhyTheRequestsOfOthersForItFailed(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.Behind()
		f.Unlocks(a.Locks("x"))
		lease := f.Beside().Locks("x", fairlock.LeaseFor(3*time.Second)) // until both wait
		first, second := bothWait(a, fairlock.WaitAtMost(6*time.Second))
		lost := f.All(f.Verb("enter"), faultproxy.SwallowReply())
		var held *fairlock.HeldError
		if err := second.Fails(); !errors.As(err, &held) || held.Failure == nil {
			f.Errorf("%v", err)
		}
		lost.Remove()
		f.Served(first)
		f.nobody("x")
		runtime.KeepAlive(lease) // else it might be unlocked early
	})
}

func TestARefusalSaysWhyTheRequestAfterTheLastAnswerFailed(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		a := f.Behind()
		f.Unlocks(a.Locks("x"))
		lease := f.Beside().Locks("x", fairlock.LeaseFor(3*time.Second)) // until w waits
		enter := f.Verb("enter")
		first := f.All(enter, faultproxy.Observe())
		w := a.Asks(background, "x", fairlock.WaitAtMost(5*time.Second))
		first.WaitExecuted(f, 1, world.Patience)
		first.Remove()
		lost := f.All(enter, faultproxy.SwallowReply())
		var held *fairlock.HeldError
		if err := w.Fails(); !errors.As(err, &held) || held.Failure == nil || !strings.Contains(err.Error(), "the last request failed: "+held.Failure.Error()) {
			f.Errorf("%v", err)
		}
		lost.Remove()
		f.Until("it has left", func() bool { return f.Holder("x") == 0 && f.Line("x") == 0 })
		f.nobody("x")
		runtime.KeepAlive(lease) // else it might be unlocked early
	})
}

// shown are the errors that an Observer was told.
type shown chan string

func (s shown) Observe(e fairlock.Event) {
	if e.Err != nil {
		s <- e.Err.Error()
	}
}

func TestAnObserverIsToldNothingOfAPasswordThatAServerRepeats(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		told := make(shown, 1)
		a := f.Patient(fairlock.WithObserver(told)) // no other request of its is to meet the answer
		f.Unlocks(a.Locks("x"))
		f.Once(f.Verb("enter"), faultproxy.RewriteReply(func([]byte) []byte {
			return []byte("-ERR unknown command 'AUTH', with args beginning with: 'bob' 's3cret' \r\n")
		}))
		err := a.Asks(background, "x").Fails()
		if text := <-told; strings.Contains(text+err.Error(), "s3cret") || !strings.Contains(text, "unknown command") {
			f.Errorf("the Observer was told %q, and the caller %v", text, err)
		}
		f.Must(a.ForceUnlock(background, "x")) // the request was executed all the same
	})
}

func TestTheFirstLookAtTheServerIsPartOfTheTimeToWait(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		const delay, bound = 2 * time.Second, 4 * time.Second
		// A request may take as long as the look.
		a := f.Patient()
		b := f.Beside()
		lease := b.Locks("x")
		look := f.Once(faultproxy.Command("info"), faultproxy.DelayReply(delay))
		w := a.Asks(background, "x", fairlock.WaitAtMost(bound))
		if err := w.Fails(); !errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("%v", err)
		}
		if w.Took > bound+delay-500*time.Millisecond { // both, one after the other, would take longer
			f.Errorf("it took %v", w.Took)
		}
		look.WaitExecuted(f, 1, world.Patience)
		f.Until("it has left", func() bool { return f.Line("x") == 0 })
		f.Unlocks(lease)
		f.nobody("x")
	})
}
