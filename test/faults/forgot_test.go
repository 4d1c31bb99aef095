package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// tenWait has ten calls wait for x, of four Lockers by turns. It also returns one of the four.
func (f *faulty) tenWait(lease time.Duration) (waits []*world.Wait, one *world.User) {
	f.Helper()
	var users []*world.User
	for range 4 {
		users = append(users, f.Beside(fairlock.WithLease(lease)))
	}
	for i := range 10 {
		waits = append(waits, users[i*7%4].Queues("x", i+1))
	}
	return waits, users[2]
}

// keptLease is kept though dozens of these tests begin at once, and renewed before the waiters must
// be back.
const keptLease = 2 * world.CalmLease

// forgetting is what happens after FLUSHALL. Each test takes as long as the waiters have for coming
// back.
var forgetting = map[string]func(f *faulty){
	"the holder has the lock and those who wait have their order": func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.Loses()
		f.Until("the line is there again", func() bool { return f.Line("x") == 10 })
		f.Keeps(lease)
		for _, w := range waits {
			w.Waits()
		}
		f.Unlocks(lease)
		f.Served(waits...)
	},

	"those who wait have their order though the holder unlocks before they are back": func(f *faulty) {
		a := f.User(&redis.Options{Addr: f.Proxy.Addr()}, fairlock.WithLease(keptLease))
		lease := a.Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		back := f.Once(f.Verb("reassert"), faultproxy.Observe())
		f.Loses()
		back.WaitExecuted(f, 1, world.Patience)
		f.Unlocks(lease)
		f.Served(waits...)
	},

	"an Unlock at once is clean and those who wait have their order": func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.Loses()
		f.Unlocks(lease)
		f.Served(waits...)
	},

	"nobody is let in while a dead holder may still trust its lease": func(f *faulty) {
		lease := f.Behind(fairlock.WithLease(world.CalmLease)).Locks("x")
		waits, one := f.tenWait(world.CalmLease)
		f.Proxy.Freeze(true) // the holder can no longer reach the server
		f.Loses()
		waits = append(waits, one.Asks(background, "x")) // enters at once
		waits[0].Gets()                                  // took fails if the lease is trusted then
		if f.Ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the dead holder says %v", lease.Err())
		}
		f.Served(waits...)
		f.Proxy.Freeze(false)
	},

	"nobody is let in while a fixed lease lasts": func(f *faulty) {
		// The lease is longer than it takes ten to stand in line, and than those who come back have.
		lease := f.Beside().Locks("x", fairlock.LeaseFor(8*time.Second))
		waits, one := f.tenWait(world.CalmLease)
		f.Loses()
		waits = append(waits, one.Asks(background, "x"))
		waits[0].Gets()
		if f.Ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the fixed lease says %v", lease.Err())
		}
		f.Served(waits...)
	},

	"nobody is let in while a dead holder trusts its lease though who comes next has a shorter one": func(f *faulty) {
		// The lease is longer than the time in which the waiters may come back.
		lease := f.Behind(fairlock.WithLease(8 * time.Second)).Locks("x")
		hasty := f.Beside(fairlock.WithLease(world.CalmLease))
		if _, err := hasty.TryLock(background, "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatal(err)
		}
		f.Proxy.Freeze(true)
		f.Loses()
		w := hasty.Asks(background, "x")
		w.Gets()
		if f.Ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the dead holder says %v", lease.Err())
		}
		f.Served(w)
		f.Proxy.Freeze(false)
	},

	"the holder is back as soon as anybody in its process asks": func(f *faulty) {
		a := f.Beside(fairlock.WithLease(time.Minute))
		for _, lease := range []*fairlock.Lease{a.Locks("x"), a.Locks("y", fairlock.LeaseFor(time.Minute))} {
			f.Loses()
			if _, err := a.TryLock(background, lease.Name()); !errors.Is(err, fairlock.ErrHeld) {
				f.Fatal(err)
			}
			f.isBack(a, lease)
			f.Unlocks(lease)
		}
	},

	"the holder is back though those in its process never stop asking": func(f *faulty) {
		a := f.Beside(fairlock.WithLease(time.Minute))
		lease := a.Locks("x")
		f.Loses()
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(background)
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = a.TryLock(ctx, "x") // only the request matters here
				}
			})
		}
		f.isBack(a, lease)
		cancel()
		all.Wait()
		f.Unlocks(lease)
	},

	"nobody is let in while the lock of a closed Locker lasts": func(f *faulty) {
		a := f.Beside(fairlock.WithLease(world.CalmLease))
		lease := a.Locks("x")
		waits, one := f.tenWait(world.CalmLease)
		ends := lease.Deadline()
		f.Must(a.Close())
		f.Ends(lease)
		f.Loses()
		waits = append(waits, one.Asks(background, "x"))
		waits[0].Gets()
		if waits[0].At.Before(ends) {
			f.Errorf("the next one had it %v too early", ends.Sub(waits[0].At))
		}
		f.Served(waits...)
	},

	"a newcomer does not overtake those who are back": func(f *faulty) {
		lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
		waits, _ := f.tenWait(world.CalmLease)
		f.Loses()
		f.Until("the line is there again", func() bool { return f.Line("x") == 10 && f.Holder("x") == lease.Token() })
		waits = append(waits, f.Beside().Queues("x", 11))
		f.Unlocks(lease)
		f.Served(waits...)
	},

	"whoever was let into a line of at most ten is not turned away though another one came in between": func(f *faulty) {
		a, b := f.Behind(), f.Beside(fairlock.WithLease(keptLease))
		lease := b.Locks("x")
		w := a.Asks(background, "x", fairlock.MaxWaiters(1))
		w.InLine(1)
		f.Heard(1)
		f.Loses()
		next := b.Asks(background, "x")
		f.Until("both are in line", func() bool { return f.Line("x") == 2 })
		f.Unlocks(lease)
		f.Served(w, next)
	},

	"a hold that was written again is not ended by the loss of the answer": func(f *faulty) {
		lease := f.Behind(fairlock.WithLease(keptLease)).Locks("x")
		reply := f.Once(f.Verb("reassert"), faultproxy.SwallowReply())
		f.Loses()
		reply.WaitExecuted(f, 1, world.Patience)
		f.Keeps(lease)
		before := lease.Deadline()
		f.Until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.Keeps(lease)
		f.Unlocks(lease)
	},

	"a hold that was written again is not ended by the silence that answers it": func(f *faulty) {
		lease := f.Behind(fairlock.WithLease(keptLease)).Locks("x")
		reply := f.Once(f.Verb("reassert"), faultproxy.SwallowReplySilently())
		f.Loses()
		reply.WaitExecuted(f, 1, world.Patience)
		f.Keeps(lease)
		before := lease.Deadline()
		f.Until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.Keeps(lease)
		f.Unlocks(lease)
	},

	"a hold is not written again after its release": func(f *faulty) {
		lease := f.Behind(fairlock.WithLease(keptLease)).Locks("x")
		execute := f.late(f.Verb("reassert"), f.Loses)
		f.Unlocks(lease)
		execute()
		if f.Holder("x") != 0 {
			f.Fatalf("there is a ghost:\n%s", redistest.Dump(f.Direct))
		}
	},

	"a hold is not written again over that of the next one": func(f *faulty) {
		lease := f.Behind(fairlock.WithLease(keptLease)).Locks("x")
		execute := f.late(f.Verb("reassert"), f.Loses)
		f.Unlocks(lease)
		next := f.Beside().Locks("x")
		execute()
		f.Keeps(next)
		f.Unlocks(next)
	},

	"the next token is larger than those before": func(f *faulty) {
		a, b := f.Beside(), f.Beside()
		lease := a.Locks("x")
		f.Unlocks(lease)
		f.Loses()
		next := b.Locks("x") // b knows of nothing
		if next.Token() <= lease.Token() {
			f.Errorf("%d comes after %d", next.Token(), lease.Token())
		}
		f.Unlocks(next)
	},
}

func TestAfterTheServerLostItsData(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for what, test := range forgetting {
		tests[what] = func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				test(f)
				f.comesBack("x")
			})
		}
	}
	world.Together(t, tests)
}

// isBack returns when the server knows again who holds the lock.
func (f *faulty) isBack(u *world.User, lease *fairlock.Lease) {
	f.Helper()
	f.Until("its holder is back", func() bool {
		state, err := u.Inspect(background, lease.Name())
		return err == nil && state.Holder != nil && state.Holder.Owner == lease.Owner()
	})
}

// comesBack fails unless a lock whose data was lost can be had once all had time to come back.
func (f *faulty) comesBack(name string) {
	f.Helper()
	late := f.lateness(lua.Gathering)
	w := f.Beside().Asks(background, name)
	w.Gets()
	const soon = lua.Gathering + 1400*time.Millisecond // if nobody told it, it asks later
	if w.Took > soon && w.Took > soon+late() {
		f.Errorf("a newcomer waited for %v", w.Took)
	}
	f.Served(w)
	f.Until("nobody is left", func() bool { return f.Holder(name) == 0 && f.Line(name) == 0 })
}
