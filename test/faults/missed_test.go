package faults

import (
	"sync"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// listens has a user wait for a lock once, so that it listens from now on.
func (f *faulty) listens(u *world.User) {
	f.Helper()
	holder := f.Beside().Locks("another")
	w := u.Queues("another", 1)
	f.Heard(1)
	f.Unlocks(holder)
	f.Served(w)
}

// queuesUnanswered is User.Queues, but the answer is on its way until answer is called.
func (f *faulty) queuesUnanswered(u *world.User) (w *world.Wait, answer func()) {
	f.Helper()
	held := make(chan struct{})
	answer = sync.OnceFunc(func() { close(held) })
	f.Cleanup(answer)
	f.Once(f.Verb("enter"), faultproxy.RewriteReply(func(reply []byte) []byte {
		<-held
		return reply
	}))
	return u.Queues("x", 1), answer
}

func TestACallThatWasPassedOverBeforeItsFirstAnswerCameHasTheFreeLockAtOnce(t *testing.T) {
	f := newFaulty(t)
	back := make(returns, 10)
	a := f.Patient(fairlock.WithObserver(back))
	f.listens(a)
	holder := f.Beside().Locks("x")
	w, answer := f.queuesUnanswered(a)
	subscribes := f.All(faultproxy.Command("SUBSCRIBE"), faultproxy.HoldRequest())
	f.cuts()
	f.Heard(0)
	f.Unlocks(holder)
	if n, token := f.Line("x"), f.Holder("x"); n != 0 || token != 0 {
		f.Fatalf("that shows nothing: %d in line, held with %d", n, token)
	}
	subscribes.Remove()
	subscribes.Release()
	<-back
	answer()
	f.Within(world.Soon, "the lock", func() { w.Gets() })
	f.Served(w)
}

func TestAGrantThatWasLostBeforeTheFirstAnswerOfItsCallCameIsTakenUpAtOnce(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Patient()
		f.listens(a)
		holder := a.Locks("x")
		w, answer := f.queuesUnanswered(a)
		lost := f.Once(f.Verb("leave"), faultproxy.SwallowReply())
		f.Unlocks(holder) // it asks twice
		lost.WaitExecuted(f, 1, world.Patience)
		answer()
		f.Within(world.Soon, "the lock", func() { w.Gets() })
		f.Served(w)
	})
}
