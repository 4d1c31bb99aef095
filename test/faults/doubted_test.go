package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// The lease is long: no renewal is due that would tell of the loss by itself.
func TestACallThatIsInItsCallbackHasNoLockThatAnotherCallWasToldSomebodyElseHas(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u, holder := f.Behind(fairlock.WithLease(time.Minute)), f.Beside().Locks("x")
		queued, goOn := make(chan struct{}, 100), make(chan struct{})
		w := u.Asks(t.Context(), "x", fairlock.OnQueued(func(int) {
			queued <- struct{}{}
			<-goOn
		}))
		<-queued
		renewal := f.Once(f.Verb("renew"), faultproxy.Observe())
		f.Unlocks(holder)
		renewal.WaitExecuted(f, 1, world.Patience)
		f.Loses()
		other := f.Beside().Locks("x")
		leaves := f.All(f.Verb("leave"), faultproxy.Observe())
		if _, err := u.TryLock(t.Context(), "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatal(err)
		}
		leaves.WaitExecuted(f, 1, world.Soon)
		close(goOn)
		w.InLine(1)
		f.Keeps(other)
		f.Unlocks(other)
		f.Unlocks(w.Gets())
		f.Free("x")
	})
}
