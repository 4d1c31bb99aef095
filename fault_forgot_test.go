package fairlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/faultproxy"
)

// tenWait has ten calls wait for x, of four Lockers by turns. One of these is returned too.
func (f *faulty) tenWait(lease time.Duration) (waits []*faultWait, one *faultUser) {
	f.Helper()
	var users []*faultUser
	for range 4 {
		users = append(users, f.beside(fairlock.WithLease(lease)))
	}
	for i := range 10 {
		waits = append(waits, users[i*7%4].queues("x", i+1))
	}
	return waits, users[2]
}

// loses has the server lose everything but its scripts.
func (f *faulty) loses() {
	f.Helper()
	f.must(f.direct.FlushAll(faultCtx).Err())
}

func TestAfterAFlushTheHolderHasTheLockAndThoseWhoWaitTheirOrder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.beside(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, _ := f.tenWait(briefLease)
		f.loses()
		f.until("the line is there again", func() bool { return f.line("x") == 10 })
		f.keeps(lease)
		for _, w := range waits {
			w.waits()
		}
		f.unlocks(lease)
		f.served(waits...)
		f.nobody("x")
	})
}

func TestAfterAFlushTheOrderIsKeptThoughTheHolderUnlocksBeforeThoseWhoWaitAreBack(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, _ := f.tenWait(briefLease)
		back := f.once(f.verb("reassert"), faultproxy.Observe())
		f.loses()
		back.WaitExecuted(f, 1, faultPatience)
		f.unlocks(lease)
		f.served(waits...)
		f.nobody("x")
	})
}

func TestAnUnlockRightAfterAFlushIsCleanAndHandsOverInOrder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.beside(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, _ := f.tenWait(briefLease)
		f.loses()
		f.unlocks(lease)
		f.served(waits...)
		f.nobody("x")
	})
}

func TestAfterAFlushNobodyIsLetInWhileADeadHolderMayStillTrustItsLease(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, one := f.tenWait(briefLease)
		f.proxy.Freeze(true) // a does not speak to the server any more
		f.loses()
		waits = append(waits, one.asks(faultCtx, "x")) // enters at once
		waits[0].gets()                                // and took fails if a trusts its lease then
		if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the dead holder says %v", lease.Err())
		}
		f.served(waits...)
		f.proxy.Freeze(false)
		f.nobody("x")
	})
}

func TestAfterAFlushNobodyIsLetInWhileAFixedLeaseLasts(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.beside()
		lease := a.locks("x", fairlock.LeaseFor(briefLease))
		waits, one := f.tenWait(briefLease / 2)
		f.loses()
		waits = append(waits, one.asks(faultCtx, "x"))
		waits[0].gets()
		if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the fixed lease says %v", lease.Err())
		}
		f.served(waits...)
		f.nobody("x")
	})
}

func TestAfterAFlushNobodyIsLetInWhileTheLockOfAClosedLockerLasts(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.beside(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, one := f.tenWait(briefLease)
		ends := lease.Deadline()
		f.must(a.Close())
		f.ends(lease)
		f.loses()
		waits = append(waits, one.asks(faultCtx, "x"))
		waits[0].gets()
		if waits[0].at.Before(ends) {
			f.Errorf("the next one had it %v too early", ends.Sub(waits[0].at))
		}
		f.served(waits...)
		f.nobody("x")
	})
}

func TestANewcomerDoesNotOvertakeThoseWhoCameBackAfterAFlush(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.beside(fairlock.WithLease(briefLease))
		lease := a.locks("x")
		waits, _ := f.tenWait(briefLease)
		f.loses()
		f.until("the line is there again", func() bool { return f.line("x") == 10 && f.holder("x") == lease.Token() })
		waits = append(waits, f.beside().queues("x", 11))
		f.unlocks(lease)
		f.served(waits...)
		f.nobody("x")
	})
}

func TestTheTokenAfterAFlushIsLargerThanThoseBefore(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.beside(), f.beside()
		lease := a.locks("x")
		f.unlocks(lease)
		f.loses()
		next := b.locks("x") // who knows of nothing
		if next.Token() <= lease.Token() {
			f.Errorf("%d comes after %d", next.Token(), lease.Token())
		}
		f.unlocks(next)
		f.nobody("x")
	})
}
