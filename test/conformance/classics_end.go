package conformance

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

func strangers(w *World) {
	a, b := w.Locker(lasting), w.Locker(lasting)
	spent := w.Lock(a, "x")
	w.Unlock(spent)
	late := w.Lock(b, "x", fairlock.LeaseFor(w.Lease))
	lease := w.Lock(a, "x", fairlock.LeaseFor(20*w.Lease)) // granted when late's lease has ended
	inner := w.LockIn(lease.Context(), a, "x", fairlock.LeaseFor(w.Lease))
	w.Unlock(inner)
	next := w.Queue(w.Context(), b, "x", 1)
	before := w.record()
	for range 2 {
		for _, stranger := range []struct {
			who  string
			l    *fairlock.Lease
			says error
		}{
			{"another Locker's Lease, whose time is over", late, fairlock.ErrLost},
			{"a Lease of before", spent, fairlock.ErrNotHeld},
			{"a nested Lease that was unlocked", inner, fairlock.ErrNotHeld},
			{"nil", nil, fairlock.ErrNotHeld},
		} {
			err := stranger.l.Unlock(w.Context())
			w.That(errors.Is(err, stranger.says), "%s: %v", stranger.who, err)
			after := w.record()
			w.That(after == before && lease.Err() == nil && lease.Depth() == 1, "%s: it was %s and is %s", stranger.who, before, after)
			w.That(len(next) == 0 && w.InLine("x") == 1, "%s let the next one in", stranger.who)
		}
	}
	w.Unlock(lease)
	w.Unlock(w.Take(next))
}

func forcing(w *World) {
	a, b, admin := w.Locker(), w.Locker(), w.Locker()
	saga := fairlock.WithOwner("saga-7")
	outer := w.Lock(a, "x", saga)
	leases := []*fairlock.Lease{outer, w.LockIn(outer.Context(), a, "x"), w.Lock(a, "x", saga), w.Lock(b, "x", saga)}
	w.NoError(admin.ForceUnlock(w.Context(), "x"))
	w.Is(admin.ForceUnlock(w.Context(), "x"), fairlock.ErrNotHeld)
	next := w.Lock(admin, "x")
	for i, l := range leases {
		<-l.Done()
		err := l.Err()
		w.That(errors.Is(err, fairlock.ErrLost) && strings.Contains(err.Error(), "an administrator forced it"), "Lease %d says %v", i, err)
		w.Is(context.Cause(l.Context()), fairlock.ErrLost)
		w.That(l.Depth() == 0, "Lease %d: depth %d", i, l.Depth())
		for _, again := range []struct {
			ctx     context.Context
			options []fairlock.LockOption
		}{{w.Context(), []fairlock.LockOption{saga}}, {context.WithoutCancel(l.Context()), nil}} {
			_, err := a.TryLock(again.ctx, "x", again.options...)
			w.Is(err, fairlock.ErrHeld)
		}
	}
	for _, l := range leases {
		w.Is(l.Unlock(w.Context()), fairlock.ErrLost)
	}
	w.NoError(next.Err())
	w.Unlock(next)
}

// A renewal is stopped on its way to the server. It goes on beside the Unlock, or after it.
func renewalsInFlight(w *World) {
	renewals := &flights{test: w.Context()}
	rdb := w.Dial()
	rdb.AddHook(renewals)
	a := w.New(rdb, fairlock.WithLease(w.Lease))
	w.Cleanup(func() {
		_ = a.Close()
		_ = rdb.Close()
	})
	extended := make(chan error, 1)
	extend := func(l *fairlock.Lease) { extended <- l.Extend(w.Context(), 10*w.Lease) }
	for i := range 200 {
		lease := w.Lock(a, "x")
		if i == 0 { // so that the server has the script
			extend(lease)
			w.NoError(<-extended)
		}
		r := renewals.stop()
		if w.Fake && i%4 < 2 {
			extended <- fairlock.ErrNotHeld // the watchdog's own renewal comes after a third of the lease
		} else {
			go extend(lease)
		}
		<-r.left
		if i%2 == 0 {
			close(r.on)
		}
		w.Unlock(lease)
		if i%2 != 0 {
			close(r.on)
		}
		<-r.over
		if err := <-extended; err != nil {
			w.Is(err, fairlock.ErrNotHeld)
		}
		w.That(w.expiry("x") < 0, "a record stays after Unlock number %d", i+1)
	}
}

// flights stops renewals of single locks on their way to the server. No other requests declare
// exactly one key.
type flights struct {
	test context.Context // when the test ends, stopped renewals go on
	next atomic.Pointer[flight]
}

type flight struct {
	left chan struct{} // closed when the renewal has left its sender
	on   chan struct{} // the test closes it to let the renewal go on
	over chan struct{} // closed when the renewal is answered
}

// stop stops the next renewal.
func (f *flights) stop() *flight {
	next := &flight{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	f.next.Store(next)
	return next
}

// ProcessHook implements redis.Hook.
func (f *flights) ProcessHook(process redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 2 && args[0] == "evalsha" && args[2] == 1 {
			if stopped := f.next.Swap(nil); stopped != nil {
				defer close(stopped.over)
				close(stopped.left)
				select {
				case <-stopped.on:
				case <-f.test.Done():
				}
			}
		}
		return process(ctx, cmd)
	}
}

// DialHook implements redis.Hook.
func (f *flights) DialHook(dial redis.DialHook) redis.DialHook { return dial }

// ProcessPipelineHook implements redis.Hook.
func (f *flights) ProcessPipelineHook(process redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return process
}
