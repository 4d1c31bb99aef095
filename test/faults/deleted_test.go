package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/world"
)

// deletes has somebody delete one of a lock's keys by hand.
func (f *faulty) deletes(key string) {
	f.Helper()
	if f.Direct.Del(background, key).Val() != 1 {
		f.Fatalf("there is no %s", key)
	}
}

// scored returns how many tickets of a lock have a deadline.
func (f *faulty) scored(name string) int64 {
	return f.Direct.ZCount(background, f.Keys(name).Waiters(), "0", "+inf").Val()
}

// mending is what happens after a key was deleted.
var mending = map[string]func(f *faulty){
	"the list mends itself":  mends(func(k lua.Keys) string { return k.Queue() }),
	"the set mends itself":   mends(func(k lua.Keys) string { return k.Waiters() }),
	"the token mends itself": mends(func(k lua.Keys) string { return k.Token() }),

	"a release right after the loss of the list hands over in order": func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.deletes(f.Keys("x").Queue())
		f.Unlocks(lease)
		f.Served(waits...)
	},

	"a holder whose record is gone learns of it and the line goes on": func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(world.CalmLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.Ends(lease) // the holder cannot know before its next renewal, and others may get the lock first
		f.deletes(f.Keys("x").Record())
		f.Within(world.CalmLease, "learning", func() { <-lease.Done() })
		if !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("it says %v", lease.Err())
		}
		if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
		f.Served(waits...)
	},
}

// mends tests that the holder does not notice the loss of a key, and that the line is as before.
func mends(key func(lua.Keys) string) func(f *faulty) {
	return func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.Heard(4)
		f.deletes(key(f.Keys("x")))
		f.Until("all is as it was", func() bool {
			return f.Line("x") == 10 && f.scored("x") == 10 && f.Direct.Exists(background, f.Keys("x").Token()).Val() == 1
		})
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Served(waits...)
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
	world.Together(t, tests)
}

func TestAReleaseRightAfterTheSetWasDeletedHandsOverAtOnceAndInOrder(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.Beside().Locks("x")
		waits, _ := f.tenWait(30 * time.Second)
		f.Heard(4)
		f.deletes(f.Keys("x").Waiters())
		f.Unlocks(lease)
		f.Within(world.Soon, "the hand-over", func() { waits[0].Gets() })
		f.Served(waits...)
		f.nobody("x")
	})
}

func TestAReleaseRightAfterTheTokenWasDeletedHandsOverWithALargerToken(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.Beside().Locks("x")
		waits, _ := f.tenWait(30 * time.Second)
		f.deletes(f.Keys("x").Token())
		f.Unlocks(lease)
		if next := waits[0].Gets(); next.Token() <= lease.Token() {
			f.Errorf("%d comes after %d", next.Token(), lease.Token())
		}
		f.Served(waits...)
		f.nobody("x")
	})
}

func TestAnUnlockWhoseRecordWasDeletedSaysLost(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		lease := f.Beside().Locks("x")
		w := f.Beside(fairlock.WithLease(world.CalmLease)).Queues("x", 1)
		f.Ends(lease) // the holder cannot know yet, and the waiter may get the lock first
		f.deletes(f.Keys("x").Record())
		if err := lease.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			f.Errorf("Unlock says %v", err)
		}
		f.Within(world.Soon, "the hand-over", func() { w.Gets() }) // the lock is free now
		f.Served(w)
		f.nobody("x")
	})
}
