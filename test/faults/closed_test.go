package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestACallWhoseFixedLeaseIsNotConfirmedYetEndsWithItsLocker(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(), f.Beside()
	holder := b.Locks("x")
	w := a.Queues("x", 1, fairlock.LeaseFor(time.Minute))
	confirmation := f.All(f.Verb("renew"), faultproxy.DropRequest())
	f.Unlocks(holder)
	f.Until("its claim is to be confirmed", func() bool { return confirmation.Hits() > 0 })
	f.Within(world.Patience, "Close", func() { f.Must(a.Close()) })
	f.Within(world.Soon, "Lock", func() {
		if err := w.Fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Errorf("Lock says %v", err)
		}
	})
	// Its leave may be on its way yet. Without one the claim would last for longer.
	world.UntilWithin(t, world.Soon, "it has left", func() bool { return f.Holder("x") == 0 })
	f.nobody("x")
}

func TestACallThatAsksForMoreThanItsHoldHasEndsWithItsLocker(t *testing.T) {
	for what, asks := range map[string]func(fairlock.Interface, *fairlock.Lease) error{
		"an Extend": func(_ fairlock.Interface, lease *fairlock.Lease) error {
			return lease.Extend(context.Background(), 2*time.Hour)
		},
		"a nested call for a longer lease": func(l fairlock.Interface, _ *fairlock.Lease) error {
			_, err := l.Lock(context.Background(), "x", fairlock.WithOwner("saga-7"), fairlock.LeaseFor(2*time.Hour))
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFaulty(t)
			a := f.Behind()
			holder := a.Locks("x", fairlock.LeaseFor(time.Hour), fairlock.WithOwner("saga-7"))
			renewals := f.All(f.Verb("renew"), faultproxy.DropRequest())
			said := make(chan error, 1)
			go func() { said <- asks(a, holder) }()
			f.Until("it is asked for", func() bool { return renewals.Hits() > 0 })
			f.Within(world.Patience, "Close", func() { f.Must(a.Close()) })
			f.Within(world.Soon, what, func() {
				if err := <-said; !errors.Is(err, fairlock.ErrClosed) {
					f.Errorf("it says %v", err)
				}
			})
		})
	}
}

// The client has no timeouts, and the server has no replica: it would answer after a minute.
func TestACloseDoesNotWaitForReplicasAsLongAsACallDoes(t *testing.T) {
	test := func(f *faulty, nested bool) {
		u := f.With(redis.NewClient(&redis.Options{Addr: f.Addr, ReadTimeout: -1, WriteTimeout: -1}))
		ctx := background
		if nested {
			ctx = u.Locks("x").Context()
		}
		said := make(chan error, 1)
		go func() {
			_, err := u.Lock(ctx, "x", fairlock.WithReplicas(1, time.Minute))
			said <- err
		}()
		f.Until("the server waits for replicas", func() bool {
			return strings.Contains(f.Direct.Info(background, "clients").Val(), "blocked_clients:1")
		})
		f.Within(2*lua.MostKept+slack, "Close", func() { f.Must(u.Close()) })
		f.Within(world.Soon, "Lock", func() {
			if err := <-said; !errors.Is(err, fairlock.ErrClosed) {
				f.Errorf("Lock says %v", err)
			}
		})
		f.Must(f.Direct.ClientKillByFilter(background, "TYPE", "normal", "SKIPME", "yes").Err())
		if !nested {
			f.nobody("x")
		}
	}
	world.Together(t, map[string]func(*testing.T){
		"fair":          func(t *testing.T) { test(newFaulty(t), false) },
		"fair, nested":  func(t *testing.T) { test(newFaulty(t), true) },
		"plain":         func(t *testing.T) { test(newFaulty(t).plain(), false) },
		"plain, nested": func(t *testing.T) { test(newFaulty(t).plain(), true) },
	})
}
