package fairlock_test

import (
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// fills makes the server refuse every write that needs memory.
func (f *faulty) fills() {
	f.Helper()
	f.must(f.direct.ConfigSet(faultCtx, "maxmemory", "1").Err())
}

func (f *faulty) empties() {
	f.Helper()
	f.must(f.direct.ConfigSet(faultCtx, "maxmemory", "0").Err())
}

func TestAFullServerRefusesNewLocksAndNothingElse(t *testing.T) {
	f := newFaulty(t)
	a, b := f.behind(fairlock.WithLease(briefLease)), f.beside(fairlock.WithLease(briefLease))
	lease := a.locks("x")
	waits := []*faultWait{a.queues("x", 1), b.queues("x", 2), a.queues("x", 3), b.queues("x", 4)}
	f.fills()

	newcomer := f.beside()
	f.refuses(newcomer.Interface, "new", refusal{says: "OOM"})
	if keys := f.direct.Keys(faultCtx, "*{new}").Val(); len(keys) > 0 {
		f.Errorf("half a lock: %v", keys)
	}
	f.refused("lock", "x", refusal{says: "OOM"}, func() error { _, err := newcomer.Lock(faultCtx, "x"); return err })
	f.refused("trylock", "x", refusal{is: fairlock.ErrHeld}, func() error { _, err := newcomer.TryLock(faultCtx, "x"); return err })
	if n := f.line("x"); n != 4 {
		f.Errorf("%d in line", n)
	}
	_, err := newcomer.Inspect(faultCtx, "x")
	f.must(err)

	renewals := f.all(f.verb("renew"), faultproxy.Observe())
	renewals.WaitExecuted(f, 3, faultPatience)
	f.keeps(lease)
	inner, err := a.Lock(lease.Context(), "x")
	f.must(err)
	f.must(inner.Extend(faultCtx, time.Minute))
	f.must(inner.Unlock(faultCtx))

	waits[1].cancel()
	waits[1].fails()
	f.until("it has left", func() bool { return f.line("x") == 3 })
	f.unlocks(lease)
	f.served(waits[0], waits[2], waits[3])
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerAWaiterHeartbeatsAndTakesALockThatWasNotReleased(t *testing.T) {
	f := newFaulty(t)
	f.ends(f.beside().locks("x", fairlock.LeaseFor(300*time.Millisecond)))
	waits := []*faultWait{f.beside().queues("x", 1), f.beside().queues("x", 2)}
	f.fills()
	f.served(waits...)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerAFixedLeaseIsConfirmed(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside().locks("x")
	w := f.beside().queues("x", 1, fairlock.LeaseFor(time.Minute))
	f.fills()
	f.unlocks(lease)
	f.keeps(w.gets())
	f.served(w)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerALockIsForcedFromItsHolder(t *testing.T) {
	f := newFaulty(t)
	u := f.beside()
	lease := u.locks("x")
	w := f.beside().queues("x", 1)
	f.fills()
	f.ends(lease) // for the time of a message both trust it
	forced, _, err := lua.NewServer(u.rdb, lua.Channels("fairlock"), "admin").Force(faultCtx, f.keys("x"), lease.Token())
	f.must(err)
	if !forced {
		f.Error("it was not forced")
	}
	f.served(w)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerThatForgotEverythingTheHolderIsBackAndThoseWhoWaitAreToo(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside(fairlock.WithLease(briefLease)).locks("x")
	waits, _ := f.tenWait(briefLease)
	f.fills()
	f.loses()
	f.until("the line is there again", func() bool { return f.line("x") == 10 })
	f.keeps(lease)
	f.unlocks(lease)
	f.served(waits...)
	f.empties()
	f.nobody("x")
}

func TestOnAFullServerACallWhoseFirstRequestIsUnansweredLeavesForCertain(t *testing.T) {
	f := newFaulty(t)
	a := f.behind()
	f.unlocks(a.locks("x"))
	var w *faultWait
	execute := f.late(f.verb("enter"), func() { w = a.asks(faultCtx, "x") })
	f.fills()
	f.left(func() { w.cancel() })
	w.fails()
	f.empties()
	execute()
	f.nobody("x")
}
