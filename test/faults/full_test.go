package faults

import (
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// fills makes the server refuse every write that needs memory.
func (f *faulty) fills() {
	f.Helper()
	f.Must(f.Direct.ConfigSet(background, "maxmemory", "1").Err())
}

func (f *faulty) empties() {
	f.Helper()
	f.Must(f.Direct.ConfigSet(background, "maxmemory", "0").Err())
}

func TestAFullServerRefusesNewLocksAndNothingElse(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(fairlock.WithLease(keptLease)), f.Beside(fairlock.WithLease(keptLease))
	lease := a.Locks("x")
	waits := []*world.Wait{a.Queues("x", 1), b.Queues("x", 2), a.Queues("x", 3), b.Queues("x", 4)}
	f.fills()

	newcomer := f.Beside()
	f.Refuses(newcomer.Interface, "new", world.Refusal{Says: "OOM"})
	if keys := f.Direct.Keys(background, "*{new}").Val(); len(keys) > 0 {
		f.Errorf("half a lock: %v", keys)
	}
	f.Refused("lock", "x", world.Refusal{Says: "OOM"}, func() error { _, err := newcomer.Lock(background, "x"); return err })
	f.Refused("trylock", "x", world.Refusal{Is: fairlock.ErrHeld}, func() error { _, err := newcomer.TryLock(background, "x"); return err })
	if n := f.Line("x"); n != 4 {
		f.Errorf("%d in line", n)
	}
	_, err := newcomer.Inspect(background, "x")
	f.Must(err)

	renewals := f.All(f.Verb("renew"), faultproxy.Observe())
	renewals.WaitExecuted(f, 3, world.Patience)
	f.Keeps(lease)
	inner, err := a.Lock(lease.Context(), "x")
	f.Must(err)
	f.Must(inner.Extend(background, time.Minute))
	f.Must(inner.Unlock(background))

	waits[1].Cancel()
	waits[1].Fails()
	f.Until("it has left", func() bool { return f.Line("x") == 3 })
	f.Unlocks(lease)
	f.Served(waits[0], waits[2], waits[3])
	f.empties()
	f.nobody("x")
}

func TestAFullServerRefusesNewPlainLocksAtOnce(t *testing.T) {
	f := newFaulty(t)
	f.Plain()
	a, b := f.Beside(fairlock.WithLease(keptLease)), f.Beside()
	lease := a.Locks("x")
	w := b.WaitsPlainly("x")
	f.fills()
	newcomer := f.Beside()
	f.Refuses(newcomer.Interface, "new", world.Refusal{Says: "OOM"})
	if keys := f.Direct.Keys(background, "*{new}").Val(); len(keys) > 0 {
		f.Errorf("half a lock: %v", keys)
	}
	f.Refused("trylock", "x", world.Refusal{Is: fairlock.ErrHeld}, func() error { _, err := newcomer.TryLock(background, "x"); return err })
	f.Keeps(lease)
	f.Unlocks(lease)
	f.empties()
	f.Served(w)
	f.nobody("x")
}

func TestOnAFullServerAWaiterHeartbeatsAndTakesALockThatWasNotReleased(t *testing.T) {
	f := newFaulty(t)
	a, b, c := f.Beside(), f.Beside(), f.Beside()
	f.meet(a, b, c)
	f.Ends(a.Locks("x", fairlock.LeaseFor(5*time.Second))) // until both are in line
	waits := []*world.Wait{b.Queues("x", 1), c.Queues("x", 2)}
	f.fills()
	f.Served(waits...)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerAFixedLeaseIsConfirmed(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside().Locks("x")
	w := f.Beside().Queues("x", 1, fairlock.LeaseFor(time.Minute))
	f.fills()
	f.Unlocks(lease)
	f.Keeps(w.Gets())
	f.Served(w)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerALockIsForcedFromItsHolder(t *testing.T) {
	f := newFaulty(t)
	u := f.Beside()
	lease := u.Locks("x")
	w := f.Beside().Queues("x", 1)
	f.fills()
	f.Ends(lease) // for the time of one message both trust the lock
	forced, _, err := f.admin(u).Force(background, f.Keys("x"), lease.Token())
	f.Must(err)
	if !forced {
		f.Error("it was not forced")
	}
	f.Served(w)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerThatForgotEverythingTheHolderIsBackAndThoseWhoWaitAreToo(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
	waits, _ := f.tenWait(world.CalmLease)
	f.fills()
	f.Loses()
	f.Until("the line is there again", func() bool { return f.Line("x") == 10 })
	f.Keeps(lease)
	f.Unlocks(lease)
	f.Served(waits...)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerACallWhoseFirstRequestIsUnansweredLeavesForCertain(t *testing.T) {
	f := newFaulty(t)
	a := f.Patient()
	f.Unlocks(a.Locks("x"))
	var w *world.Wait
	execute := f.late(f.Verb("enter"), func() { w = a.Asks(background, "x") })
	f.fills()
	f.left(func() { w.Cancel() })
	w.Fails()
	f.empties()
	execute()
	f.nobody("x")
}
