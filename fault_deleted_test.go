package fairlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// deletes has somebody delete one of a lock's keys by hand.
func (f *faulty) deletes(key string) {
	f.Helper()
	if f.direct.Del(faultCtx, key).Val() != 1 {
		f.Fatalf("there is no %s", key)
	}
}

// scored is how many tickets of a lock have a deadline.
func (f *faulty) scored(name string) int64 {
	return f.direct.ZCount(faultCtx, f.keys(name).Waiters(), "0", "+inf").Val()
}

// mending is what happens after a key was deleted.
var mending = map[string]func(f *faulty){
	"the list mends itself":  mends(func(k lua.Keys) string { return k.Queue() }),
	"the set mends itself":   mends(func(k lua.Keys) string { return k.Waiters() }),
	"the token mends itself": mends(func(k lua.Keys) string { return k.Token() }),

	"a release right after the loss of the list hands over in order": func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.deletes(f.keys("x").Queue())
		f.unlocks(lease)
		f.served(waits...)
	},

	"a holder whose record is gone learns of it and the line goes on": func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.ends(lease) // until its next renewal it cannot know, and others may come before
		f.deletes(f.keys("x").Record())
		f.within(calmLease, "learning", func() { <-lease.Done() })
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("it says %v", lease.Err())
		}
		if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
		f.served(waits...)
	},
}

// mends is the test that the holder notices nothing of the loss of a key, and the line is as it was.
func mends(key func(lua.Keys) string) func(f *faulty) {
	return func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.heard(4)
		f.deletes(key(f.keys("x")))
		f.until("all is as it was", func() bool {
			return f.line("x") == 10 && f.scored("x") == 10 && f.direct.Exists(faultCtx, f.keys("x").Token()).Val() == 1
		})
		f.keeps(lease)
		f.unlocks(lease)
		f.served(waits...)
	}
}

func TestAfterAKeyWasDeletedByHand(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, test := range mending {
		tests[what] = func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f)
				f.comesBack("x")
			})
		}
	}
	together(t, tests)
}

func TestAReleaseRightAfterTheSetWasDeletedHandsOverAtOnceAndInOrder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.beside().locks("x")
		waits, _ := f.tenWait(30 * time.Second)
		f.heard(4)
		f.deletes(f.keys("x").Waiters())
		f.unlocks(lease)
		f.within(faultSoon, "the hand-over", func() { waits[0].gets() })
		f.served(waits...)
		f.nobody("x")
	})
}

// heard returns when the server sees n subscriptions.
func (f *faulty) heard(n int) {
	f.Helper()
	f.until("everybody listens", func() bool { return len(f.direct.PubSubChannels(faultCtx, "*").Val()) == n })
}

func TestAReleaseRightAfterTheTokenWasDeletedHandsOverWithALargerToken(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.beside().locks("x")
		waits, _ := f.tenWait(30 * time.Second)
		f.deletes(f.keys("x").Token())
		f.unlocks(lease)
		if next := waits[0].gets(); next.Token() <= lease.Token() {
			f.Errorf("%d comes after %d", next.Token(), lease.Token())
		}
		f.served(waits...)
		f.nobody("x")
	})
}

func TestAnUnlockWhoseRecordWasDeletedSaysLost(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.beside().locks("x")
		w := f.beside(fairlock.WithLease(briefLease)).queues("x", 1)
		f.deletes(f.keys("x").Record())
		f.ends(lease)
		if err := lease.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
		f.within(faultSoon, "the hand-over", func() { w.gets() }) // for the lock is free now
		f.served(w)
		f.nobody("x")
	})
}
