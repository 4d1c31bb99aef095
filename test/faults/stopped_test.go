package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

func TestRequestsThatAStoppedServerExecutesLaterHoldNothing(t *testing.T) {
	f := newFaulty(t)
	quick := &redis.Options{Addr: f.Addr, ReadTimeout: 300 * time.Millisecond}
	a, b := f.User(quick), f.User(quick)
	f.Unlocks(a.Locks("x"))
	held := a.Locks("held")
	behind := b.Queues("held", 1)

	f.Server.Pause()
	var all sync.WaitGroup
	for range 10 {
		for _, u := range []*world.User{a, b} {
			all.Go(func() { f.givesUp(u.Lock, "x") })
			all.Go(func() { f.givesUp(u.TryLock, "x") })
			all.Go(func() { f.givesUp(u.Lock, "held") })
		}
	}
	all.Wait()
	behind.Cancel()
	behind.Fails()
	f.Ends(held)
	if err := held.Unlock(fromNow(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("Unlock on a stopped server: %v", err)
	}
	f.Server.Resume()

	f.Must(held.Unlock(background)) // waits for the outcome
	f.endsUpFree("x")
	f.endsUpFree("held")
}

func TestCloseOnAStoppedServerReturnsAndKeepsNobodyWaiting(t *testing.T) {
	f := newFaulty(t)
	brief := fairlock.WithLease(world.BriefLease)
	a := f.User(&redis.Options{Addr: f.Addr, ReadTimeout: 300 * time.Millisecond}, brief)
	b := f.Beside(fairlock.WithLease(2 * world.CalmLease)) // what it holds outlasts the stop
	held, lease := b.Locks("held"), a.Locks("mine", fairlock.LeaseFor(2*world.CalmLease))
	first, second := a.Queues("held", 1), b.Queues("held", 2)
	f.Server.Pause()
	f.Within(world.Soon, "Close", func() { f.Must(a.Close()) })
	if err := first.Fails(); !errors.Is(err, fairlock.ErrClosed) {
		t.Errorf("the waiting call says %v", err)
	}
	if cause := context.Cause(lease.Context()); cause != fairlock.ErrClosed {
		t.Errorf("the lease says %v", cause)
	}
	f.Ends(lease)
	f.Server.Resume()
	f.Unlocks(held) // the closed Locker may not have had a connection for its leave
	f.Within(world.Soon, "the hand-over", func() { second.Gets() })
	f.Served(second)
	f.Until("its lease has ended", func() bool { return f.Holder("mine") == 0 })
	f.nobody("mine")
}

// fromNow returns a context that ends after d, and frees its resources then.
func fromNow(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(background, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

type lockCall = func(context.Context, string, ...fairlock.LockOption) (*fairlock.Lease, error)

// givesUp makes a call that has 100 ms, and fails if the call succeeds.
func (f *faulty) givesUp(lock lockCall, name string) {
	lease, err := lock(fromNow(100*time.Millisecond), name)
	if !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("%v, %v", lease, err)
	}
}

func TestAServerStoppedForSixSecondsHangsNobodyAndEverybodyGoesOn(t *testing.T) {
	f := newFaulty(t)
	lasting, brief := fairlock.WithLease(30*time.Second), fairlock.WithLease(4*time.Second)
	a, b, c := f.Beside(lasting), f.Beside(brief), f.Beside(brief)
	long, short, fixed := a.Locks("long"), b.Locks("short"), c.Locks("fixed", fairlock.LeaseFor(4*time.Second))
	ended := a.Locks("ended")
	f.Unlocks(b.Locks("free"))
	waits := []*world.Wait{b.Queues("long", 1), a.Queues("short", 1), a.Queues("fixed", 1), b.Queues("ended", 1)}

	f.Server.Pause()
	stopped := time.Now()
	var all sync.WaitGroup
	for _, u := range []*world.User{a, b, f.Beside()} { // the last one has never spoken to the server
		f.answersInTime(&all, u)
	}
	f.Ends(ended)
	f.bounded(&all, "Unlock", 1500*time.Millisecond, ended.Unlock)
	f.bounded(&all, "Extend", boundOnStopped, func(ctx context.Context) error { return long.Extend(ctx, time.Hour) })
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
	f.Server.Resume()

	f.Within(world.Soon, "Unlock", func() { f.Must(ended.Unlock(background)) })
	waits[3].Gets()
	waits[1].Gets() // nobody held this lock any more
	waits[2].Gets()
	f.Keeps(long)
	waits[0].Waits()
	f.Unlocks(long)
	waits[0].Gets()
	for _, lost := range []*fairlock.Lease{short, fixed} {
		f.Ends(lost)
		if err := lost.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("Unlock of %s, which was lost: %v", lost.Name(), err)
		}
	}
	for _, w := range waits {
		f.Unlocks(w.Lease)
		f.nobody(w.Name)
	}
	f.endsUpFree("free")
}

// A call on the stopped server ends after its bound, and has 1.4 s more to return. Even the longest
// bound of these tests, 1.5 s, then ends before a client's read timeout of 3 s.
const (
	boundOnStopped = 300 * time.Millisecond
	limitOnStopped = 1700 * time.Millisecond
)

// answersInTime makes every kind of call that waits for a stopped server, in the background.
func (f *faulty) answersInTime(all *sync.WaitGroup, u *world.User) {
	f.Helper()
	for name, lock := range map[string]lockCall{"Lock": u.Lock, "TryLock": u.TryLock} {
		call := func(ctx context.Context) error {
			lease, err := lock(ctx, "free")
			if err == nil {
				f.Errorf("%s got a lock from a stopped server: %v", name, lease)
			}
			return err
		}
		f.bounded(all, name, boundOnStopped, call)
		f.cancelled(all, name, call)
	}
	f.bounded(all, "Do", boundOnStopped, func(ctx context.Context) error {
		return u.Do(ctx, "free", func(context.Context, *fairlock.Lease) error {
			f.Error("Do went on")
			return nil
		})
	})
	f.bounded(all, "Inspect", boundOnStopped, func(ctx context.Context) error {
		_, err := u.Inspect(ctx, "free")
		return err
	})
	f.timed(all, "Lock with WaitAtMost", boundOnStopped, func() error {
		_, err := u.Lock(background, "free", fairlock.WaitAtMost(boundOnStopped))
		if err == nil || errors.Is(err, fairlock.ErrHeld) { // nobody holds the lock, so no call may say so
			f.Errorf("Lock with WaitAtMost on a stopped server: %v", err)
		}
		return nil
	})
}

// bounded makes a call whose context ends by itself.
func (f *faulty) bounded(all *sync.WaitGroup, what string, in time.Duration, call func(context.Context) error) {
	f.timed(all, what, in, func() error {
		if err := call(fromNow(in)); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	})
}

// cancelled makes a call whose context the test cancels.
func (f *faulty) cancelled(all *sync.WaitGroup, what string, call func(context.Context) error) {
	f.timed(all, what+" with a context that is cancelled", boundOnStopped, func() error {
		ctx, cancel := context.WithCancel(background)
		defer time.AfterFunc(boundOnStopped, cancel).Stop()
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// timed makes a call that must return soon after its time.
func (f *faulty) timed(all *sync.WaitGroup, what string, in time.Duration, call func() error) {
	all.Go(func() {
		late := f.lateness(in)
		began := time.Now()
		err := call()
		if took := time.Since(began); took > in+limitOnStopped-boundOnStopped+late() {
			f.Errorf("%s took %v on a stopped server", what, took)
		}
		if err != nil {
			f.Errorf("%s on a stopped server: %v", what, err)
		}
	})
}
