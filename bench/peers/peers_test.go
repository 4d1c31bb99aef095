package peers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/redistest"
)

// locks runs f for the peers that exclude and can be tested on a redis-server.
func locks(t *testing.T, f func(t *testing.T, peer Peer, addr string)) {
	t.Helper()
	for _, p := range All() {
		if p.Floor && !slices.Contains(p.Only, "handover") || p.Server != Redis {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			if p.Missing != nil {
				java.Require(t)
			}
			t.Parallel()
			f(t, p, redistest.Start(t).Addr())
		})
	}
}

func open(t *testing.T, p Peer, addr string) Locker {
	t.Helper()
	locker, err := p.Open(Config{Addr: addr, Lease: 3 * time.Second, Waiters: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// The counter has no other guard: the race detector and the sum show a lock that does not exclude.
// rueidislock may forget a waiter; rueidislock.go says why.
func TestEveryPeerExcludes(t *testing.T) {
	locks(t, func(t *testing.T, p Peer, addr string) {
		const callers, each = 4, 5
		patience := 10 * time.Second
		if p.Name == rueidislockPeer.Name {
			patience = 2 * time.Second
		}
		var all sync.WaitGroup
		var granted atomic.Int64
		count := 0
		lockers := []Locker{open(t, p, addr), open(t, p, addr)}
		if l, ok := lockers[0].(Preparer); ok {
			if err := l.Prepare(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range callers {
			all.Go(func() {
				for range each {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					err := with(ctx, lockers[i%2], func() { count++ })
					cancel()
					switch {
					case err == nil:
						granted.Add(1)
					case p.Name == rueidislockPeer.Name && errors.Is(err, context.DeadlineExceeded):
						t.Log("it has forgotten a waiter")
						return
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if int64(count) != granted.Load() {
			t.Errorf("counted %d, want %d", count, granted.Load())
		}
	})
}

func with(ctx context.Context, locker Locker, do func()) error {
	lock, err := locker.Lock(ctx, "x", func() {})
	if err != nil {
		return err
	}
	do()
	return lock.Unlock(context.Background())
}

func TestEveryPeerThatCanRefuseDoes(t *testing.T) {
	locks(t, func(t *testing.T, p Peer, addr string) {
		locker := open(t, p, addr)
		shop, ok := locker.(Trier)
		if !ok {
			t.Skip("it cannot")
		}
		held, err := shop.Try(t.Context(), "x", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits, ended := make(chan struct{}), make(chan struct{})
		var once sync.Once
		go func() { // fills the line, if the peer has one
			defer close(ended)
			if lock, err := locker.Lock(ctx, "x", func() { once.Do(func() { close(waits) }) }); err == nil {
				_ = lock.Unlock(context.Background())
			}
		}()
		select {
		case <-waits:
		case <-time.After(time.Second): // some peers do not tell; they refuse because the lock is held
		}
		brief, done := context.WithTimeout(t.Context(), 20*time.Second) // it waits, should the line be empty
		defer done()
		if _, err := shop.Try(brief, "x", 1); !errors.Is(err, ErrRefused) {
			t.Errorf("a second one: %v, want ErrRefused", err)
		}
		cancel()
		<-ended
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTheFloorsAnswer(t *testing.T) {
	addr := redistest.Start(t).Addr()
	for _, p := range []Peer{ping, noop, setnx, get} {
		locker := open(t, p, addr)
		lock, err := locker.Lock(t.Context(), "x", nil)
		if err == nil {
			err = lock.Unlock(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestRedissonsWaitersEachNeedOneOfFewSubscriptions(t *testing.T) {
	t.Parallel()
	r := newRedisson(Config{Addr: redistest.Start(t).Addr(), Lease: 3 * time.Second})
	defer r.Close()
	held, err := r.Lock(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.latches.once.Do(r.latches.begin)
	for range subscriptions - 1 {
		r.latches.room <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	failed := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.Lock(ctx, "x", nil)
			failed <- err
		}()
	}
	for range 2 {
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if len(r.latches.room) < subscriptions-1 {
		t.Errorf("%d subscriptions are in use, want the %d of others", len(r.latches.room), subscriptions-1)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhoCannotDoAWorkloadSaysWhy(t *testing.T) {
	for _, p := range All() {
		for workload, why := range p.Cannot {
			if got, ok := p.Does(workload, 1); ok || got != why {
				t.Errorf("%s does %s", p.Name, workload)
			}
		}
		for workload, most := range p.Most {
			if _, ok := p.Does(workload, most.Size); !ok {
				t.Errorf("%s does not do %s of %d", p.Name, workload, most.Size)
			}
			if why, ok := p.Does(workload, most.Size+1); ok || why == "" {
				t.Errorf("%s does %s of %d", p.Name, workload, most.Size+1)
			}
		}
	}
}
