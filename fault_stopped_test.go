package fairlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

func TestRequestsThatAStoppedServerExecutesLaterHoldNothing(t *testing.T) {
	f := newFaulty(t)
	quick := &redis.Options{Addr: f.addr, ReadTimeout: 300 * time.Millisecond}
	a, b := f.user(quick), f.user(quick)
	f.unlocks(a.locks("x"))
	held := a.locks("held")
	behind := b.queues("held", 1)

	f.server.Pause()
	var all sync.WaitGroup
	for range 10 {
		for _, u := range []*faultUser{a, b} {
			all.Go(func() { f.givesUp(u.Lock, "x") })
			all.Go(func() { f.givesUp(u.TryLock, "x") })
			all.Go(func() { f.givesUp(u.Lock, "held") })
		}
	}
	all.Wait()
	behind.cancel()
	behind.fails()
	f.ends(held)
	if err := held.Unlock(fromNow(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("Unlock on a stopped server: %v", err)
	}
	f.server.Resume()

	f.must(held.Unlock(faultCtx)) // waits for the outcome
	f.within(faultSoon, "the end of all leaves", func() {
		f.until("nobody is in line", func() bool {
			return f.line("x")+f.line("held") == 0 && f.holder("x")+f.holder("held") == 0
		})
	})
	f.nobody("x")
	f.nobody("held")
}

// fromNow is a context that ends after d. What it holds is freed then.
func fromNow(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(faultCtx, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

type lockCall = func(context.Context, string, ...fairlock.LockOption) (*fairlock.Lease, error)

// givesUp makes a call that has 100 ms, and fails if that succeeds.
func (f *faulty) givesUp(lock lockCall, name string) {
	lease, err := lock(fromNow(100*time.Millisecond), name)
	if !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("%v, %v", lease, err)
	}
}

func TestAServerStoppedForSixSecondsHangsNobodyAndEverybodyGoesOn(t *testing.T) {
	f := newFaulty(t)
	lasting, brief := fairlock.WithLease(30*time.Second), fairlock.WithLease(2*time.Second)
	a, b, c := f.beside(lasting), f.beside(brief), f.beside(brief)
	long, short, fixed := a.locks("long"), b.locks("short"), c.locks("fixed", fairlock.LeaseFor(4*time.Second))
	ended := a.locks("ended")
	f.unlocks(b.locks("free"))
	waits := []*faultWait{b.queues("long", 1), a.queues("short", 1), a.queues("fixed", 1), b.queues("ended", 1)}

	f.server.Pause()
	stopped := time.Now()
	var all sync.WaitGroup
	for _, u := range []*faultUser{a, b, f.beside()} { // the last one has never spoken to the server
		f.answersInTime(&all, u)
	}
	f.ends(ended)
	all.Go(func() { f.bounded("Unlock", 1500*time.Millisecond, 1600*time.Millisecond, ended.Unlock) })
	all.Go(func() {
		f.bounded("Extend", 300*time.Millisecond, 400*time.Millisecond, func(ctx context.Context) error {
			return long.Extend(ctx, time.Hour)
		})
	})
	for _, lost := range []*fairlock.Lease{short, fixed} {
		select {
		case <-lost.Done():
		case <-time.After(5 * time.Second):
			t.Errorf("%s is trusted after %v", lost.Name(), time.Since(stopped))
		}
		if !errors.Is(lost.Err(), fairlock.ErrLost) {
			t.Errorf("%s: %v", lost.Name(), lost.Err())
		}
	}
	all.Wait()
	time.Sleep(time.Until(stopped.Add(6 * time.Second)))
	f.server.Resume()

	f.within(faultSoon, "Unlock", func() { f.must(ended.Unlock(faultCtx)) })
	waits[3].gets()
	waits[1].gets() // nobody held it
	waits[2].gets()
	f.keeps(long)
	waits[0].waits()
	f.unlocks(long)
	waits[0].gets()
	for _, lost := range []*fairlock.Lease{short, fixed} {
		f.ends(lost)
		if err := lost.Unlock(faultCtx); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("Unlock of %s, which was lost: %v", lost.Name(), err)
		}
	}
	for _, w := range waits {
		f.unlocks(w.lease)
		f.nobody(w.name)
	}
	f.nobody("free")
}

// answersInTime makes every call that has a context on a stopped server, in the background.
func (f *faulty) answersInTime(all *sync.WaitGroup, u *faultUser) {
	const in, limit = 300 * time.Millisecond, 400 * time.Millisecond
	for name, lock := range map[string]lockCall{"Lock": u.Lock, "TryLock": u.TryLock} {
		call := func(ctx context.Context) error {
			lease, err := lock(ctx, "free")
			if err == nil {
				f.Errorf("%s got a lock from a stopped server: %v", name, lease)
			}
			return err
		}
		all.Go(func() { f.bounded(name, in, limit, call) })
		all.Go(func() { f.cancelled(name, in, limit, call) })
	}
	all.Go(func() {
		f.bounded("Do", in, limit, func(ctx context.Context) error {
			return u.Do(ctx, "free", func(context.Context, *fairlock.Lease) error {
				f.Error("Do went on")
				return nil
			})
		})
	})
	all.Go(func() {
		f.bounded("Inspect", in, limit, func(ctx context.Context) error {
			_, err := u.Inspect(ctx, "free")
			return err
		})
	})
	all.Go(func() {
		f.within(limit, "Lock with WaitAtMost", func() {
			// Nobody holds it, so nobody may say so.
			if _, err := u.Lock(faultCtx, "free", fairlock.WaitAtMost(in)); err == nil || errors.Is(err, fairlock.ErrHeld) {
				f.Errorf("Lock with WaitAtMost on a stopped server: %v", err)
			}
		})
	})
}

// bounded makes a call whose context ends by itself.
func (f *faulty) bounded(what string, in, limit time.Duration, call func(context.Context) error) {
	f.within(limit, what, func() {
		if err := call(fromNow(in)); !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("%s on a stopped server: %v", what, err)
		}
	})
}

// cancelled makes a call whose context is cancelled.
func (f *faulty) cancelled(what string, in, limit time.Duration, call func(context.Context) error) {
	ctx, cancel := context.WithCancel(faultCtx)
	defer time.AfterFunc(in, cancel).Stop()
	f.within(limit, what+" with a context that is cancelled", func() {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			f.Errorf("%s on a stopped server: %v", what, err)
		}
	})
}
