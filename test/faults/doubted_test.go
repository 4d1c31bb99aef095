package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// renewals is an Observer that reports when a lease was renewed.
type renewals chan struct{}

func (r renewals) Observe(e fairlock.Event) {
	if e.Kind == fairlock.Renewed {
		r <- struct{}{}
	}
}

// The lease is long: no renewal is due that would tell of the loss by itself.
func TestACallThatIsInItsCallbackHasNoLockThatAnotherCallWasToldSomebodyElseHas(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		renewed := make(renewals, 100)
		u := f.Patient(fairlock.WithLease(time.Minute), fairlock.WithObserver(renewed))
		holder := f.Beside().Locks("x")
		queued, goOn := make(chan struct{}, 100), make(chan struct{})
		w := u.Asks(t.Context(), "x", fairlock.OnQueued(func(int) {
			queued <- struct{}{}
			<-goOn
		}))
		<-queued
		f.Unlocks(holder)
		world.Next(f.T, renewed) // not before: while no answer has come, it renews again
		f.Loses()
		other := f.Beside().Locks("x")
		leaves := f.All(f.Verb("leave"), faultproxy.Observe())
		if _, err := u.TryLock(t.Context(), "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatal(err)
		}
		leaves.WaitExecuted(f, 1, world.Patience) // before a renewal is due
		close(goOn)
		w.InLine(1)
		f.Keeps(other)
		f.Unlocks(other)
		f.Unlocks(w.Gets())
		f.Free("x")
	})
}

// The Extend was executed before the server lost its data. Nothing else is due for twenty seconds.
func TestAnAnswerThatIsOlderThanADoubtDoesNotSettleIt(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		patient := &redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: 5 * time.Second}
		u := f.User(patient, fairlock.WithLease(time.Minute))
		lease := u.Locks("x")
		told := make(chan struct{})
		late := f.Once(f.Verb("renew"), faultproxy.RewriteReply(func(reply []byte) []byte {
			<-told
			return reply
		}))
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(background, 2*time.Minute) }()
		late.WaitExecuted(f, 1, world.Patience)
		f.Ends(lease)
		f.Loses()
		other := f.Beside().Locks("x")
		w := u.WaitsPlainly("x") // a try would be answered by the process that has the lock
		close(told)
		select {
		case <-lease.Done():
		case <-time.After(2400 * time.Millisecond): // a call that waits asks again after 2.5 s
			f.Errorf("it trusts the lock that another has")
		}
		f.Logf("it was extended: %v", <-extended)
		f.Unlocks(other)
		f.Unlocks(w.Gets())
	})
}
