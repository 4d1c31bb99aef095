package fairlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
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

// calmLease is one that is renewed in time however many tests run beside.
const calmLease = 1500 * time.Millisecond

// forgetting is what happens after FLUSHALL. All of it takes as long as those who wait are given to come back.
var forgetting = map[string]func(f *faulty){
	"the holder has the lock and those who wait have their order": func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.loses()
		f.until("the line is there again", func() bool { return f.line("x") == 10 })
		f.keeps(lease)
		for _, w := range waits {
			w.waits()
		}
		f.unlocks(lease)
		f.served(waits...)
	},

	"those who wait have their order though the holder unlocks before they are back": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		back := f.once(f.verb("reassert"), faultproxy.Observe())
		f.loses()
		back.WaitExecuted(f, 1, faultPatience)
		f.unlocks(lease)
		f.served(waits...)
	},

	"an Unlock at once is clean and those who wait have their order": func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.loses()
		f.unlocks(lease)
		f.served(waits...)
	},

	"nobody is let in while a dead holder may still trust its lease": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		waits, one := f.tenWait(calmLease)
		f.proxy.Freeze(true) // the holder does not speak to the server any more
		f.loses()
		waits = append(waits, one.asks(faultCtx, "x")) // enters at once
		waits[0].gets()                                // and took fails if the lease is trusted then
		if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the dead holder says %v", lease.Err())
		}
		f.served(waits...)
		f.proxy.Freeze(false)
	},

	"nobody is let in while a fixed lease lasts": func(f *faulty) {
		lease := f.beside().locks("x", fairlock.LeaseFor(calmLease))
		waits, one := f.tenWait(calmLease / 2)
		f.loses()
		waits = append(waits, one.asks(faultCtx, "x"))
		waits[0].gets()
		if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the fixed lease says %v", lease.Err())
		}
		f.served(waits...)
	},

	"nobody is let in while a dead holder trusts its lease though who comes next has a shorter one": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(8 * time.Second)).locks("x") // longer than all have to come back
		hasty := f.beside(fairlock.WithLease(calmLease))
		if _, err := hasty.TryLock(faultCtx, "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatal(err)
		}
		f.proxy.Freeze(true)
		f.loses()
		w := hasty.asks(faultCtx, "x")
		w.gets()
		if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
			f.Errorf("the dead holder says %v", lease.Err())
		}
		f.served(w)
		f.proxy.Freeze(false)
	},

	"the holder is back as soon as anybody in its process asks": func(f *faulty) {
		a := f.beside(fairlock.WithLease(time.Minute))
		for _, lease := range []*fairlock.Lease{a.locks("x"), a.locks("y", fairlock.LeaseFor(time.Minute))} {
			f.loses()
			if _, err := a.TryLock(faultCtx, lease.Name()); !errors.Is(err, fairlock.ErrHeld) {
				f.Fatal(err)
			}
			f.isBack(a, lease)
			f.unlocks(lease)
		}
	},

	"the holder is back though those in its process never stop asking": func(f *faulty) {
		a := f.beside(fairlock.WithLease(time.Minute))
		lease := a.locks("x")
		f.loses()
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(faultCtx)
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = a.TryLock(ctx, "x") // it has nothing else to say
				}
			})
		}
		f.isBack(a, lease)
		cancel()
		all.Wait()
		f.unlocks(lease)
	},

	"nobody is let in while the lock of a closed Locker lasts": func(f *faulty) {
		a := f.beside(fairlock.WithLease(calmLease))
		lease := a.locks("x")
		waits, one := f.tenWait(calmLease)
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
	},

	"a newcomer does not overtake those who are back": func(f *faulty) {
		lease := f.beside(fairlock.WithLease(calmLease)).locks("x")
		waits, _ := f.tenWait(calmLease)
		f.loses()
		f.until("the line is there again", func() bool { return f.line("x") == 10 && f.holder("x") == lease.Token() })
		waits = append(waits, f.beside().queues("x", 11))
		f.unlocks(lease)
		f.served(waits...)
	},

	"whoever was let into a line of at most ten is not turned away though another one came in between": func(f *faulty) {
		a, b := f.behind(), f.beside(fairlock.WithLease(calmLease))
		lease := b.locks("x")
		w := a.asks(faultCtx, "x", fairlock.MaxWaiters(1))
		w.inLine(1)
		f.heard(1)
		f.loses()
		next := b.asks(faultCtx, "x")
		f.until("both are in line", func() bool { return f.line("x") == 2 })
		f.unlocks(lease)
		f.served(w, next)
	},

	"a hold that was written again is not ended by the loss of the answer": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		reply := f.once(f.verb("reassert"), faultproxy.SwallowReply())
		f.loses()
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(lease)
		before := lease.Deadline()
		f.until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.keeps(lease)
		f.unlocks(lease)
	},

	"a hold that was written again is not ended by the silence that answers it": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		reply := f.once(f.verb("reassert"), faultproxy.SwallowReplySilently())
		f.loses()
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(lease)
		before := lease.Deadline()
		f.until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.keeps(lease)
		f.unlocks(lease)
	},

	"a hold is not written again after its release": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		execute := f.late(f.verb("reassert"), f.loses)
		f.unlocks(lease)
		execute()
		if f.holder("x") != 0 {
			f.Fatalf("there is a ghost:\n%s", f.dump())
		}
	},

	"a hold is not written again over that of the next one": func(f *faulty) {
		lease := f.behind(fairlock.WithLease(calmLease)).locks("x")
		execute := f.late(f.verb("reassert"), f.loses)
		f.unlocks(lease)
		next := f.beside().locks("x")
		execute()
		f.keeps(next)
		f.unlocks(next)
	},

	"the next token is larger than those before": func(f *faulty) {
		a, b := f.beside(), f.beside()
		lease := a.locks("x")
		f.unlocks(lease)
		f.loses()
		next := b.locks("x") // who knows of nothing
		if next.Token() <= lease.Token() {
			f.Errorf("%d comes after %d", next.Token(), lease.Token())
		}
		f.unlocks(next)
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
	together(t, tests)
}

// isBack returns when the server knows again whose lock it is.
func (f *faulty) isBack(u *faultUser, lease *fairlock.Lease) {
	f.Helper()
	f.until("its holder is back", func() bool {
		state, err := u.Inspect(faultCtx, lease.Name())
		return err == nil && state.Holder != nil && state.Holder.Owner == lease.Owner()
	})
}

// comesBack fails unless a lock whose data were lost can be had when all had time to come back.
func (f *faulty) comesBack(name string) {
	f.Helper()
	w := f.beside().asks(faultCtx, name)
	w.gets()
	if w.took > 7*time.Second {
		f.Errorf("a newcomer waited for %v", w.took)
	}
	f.served(w)
	f.until("nobody is left", func() bool { return f.holder(name) == 0 && f.line(name) == 0 })
}
