package topologies

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// nests makes a nested call under a hold that was taken without any word of replicas.
func nests(t *testing.T, s *redistest.Server, kind world.Kind, option fairlock.LockOption, check func(outer, inner *fairlock.Lease, err error)) {
	t.Helper()
	locker, other := kind(s.Client(t)), kind(s.Client(t))
	defer locker.Close()
	defer other.Close()
	for _, try := range []bool{false, true} {
		outer, err := locker.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		lock := locker.Lock
		if try {
			lock = locker.TryLock
		}
		inner, err := lock(outer.Context(), "x", option)
		check(outer, inner, err)
		if err := inner.Unlock(t.Context()); err != nil && inner != nil {
			t.Error(err)
		}
		if outer.Err() != nil || outer.Depth() != 1 {
			t.Errorf("the outer Lease: depth %d, %v", outer.Depth(), outer.Err())
		}
		if _, err := other.TryLock(t.Context(), "x"); !errors.Is(err, fairlock.ErrHeld) {
			t.Errorf("another process: %v", err)
		}
		if err := outer.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		lease, err := other.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANestedTryWaitsForItsReplicasForAsLongAsItsOptionSays(t *testing.T) {
	alone := redistest.Start(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		nests(t, alone, kind, fairlock.WithReplicas(1, 1200*time.Millisecond), func(_, _ *fairlock.Lease, err error) {
			if !errors.Is(err, fairlock.ErrNotReplicated) {
				t.Fatalf("got %v", err)
			}
		})
	})
}

func TestANestedCallThatTooFewReplicasConfirmFailsAndItsHoldStays(t *testing.T) {
	alone := redistest.Start(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		nests(t, alone, kind, fairlock.WithReplicas(1, 50*time.Millisecond), func(_, inner *fairlock.Lease, err error) {
			if !errors.Is(err, fairlock.ErrNotReplicated) || inner != nil {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), "0 of 1") || strings.Contains(err.Error(), "given back") {
				t.Errorf("it says %v", err)
			}
		})
	})
}

func TestANestedCallHasWhatReplicasConfirm(t *testing.T) {
	master, _ := world.Replicated(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		nests(t, master, kind, fairlock.WithReplicas(1, 2*time.Second), func(outer, inner *fairlock.Lease, err error) {
			if err != nil || inner.Token() != outer.Token() || outer.Depth() != 2 {
				t.Fatalf("depth %d, %v", outer.Depth(), err)
			}
		})
	})
}

func TestANestedCallHasWhatReplicasConfirmThoughTheServerHadForgottenTheHold(t *testing.T) {
	master, _ := world.Replicated(t)
	admin := master.Client(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(master.Client(t))
		defer locker.Close()
		outer, err := locker.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		inner, err := locker.Lock(outer.Context(), "x", fairlock.WithReplicas(1, 2*time.Second))
		if err != nil || outer.Err() != nil {
			t.Fatalf("got %v; the outer Lease: %v", err, outer.Err())
		}
		if admin.Exists(t.Context(), prefix+":lock:{x}").Val() == 0 {
			t.Error("the server does not have the hold")
		}
		for _, lease := range []*fairlock.Lease{inner, outer} {
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestANestedCallAsksReplicasForNoLongerThanItMayWait(t *testing.T) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		s := redistest.Start(t)
		locker := kind(s.Client(t))
		defer locker.Close()
		outer, err := locker.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		s.Pause()
		defer s.Resume()
		replicas := fairlock.WithReplicas(1, 50*time.Millisecond)
		for what, call := range map[string]func() (*fairlock.Lease, error){
			"a try": func() (*fairlock.Lease, error) { return locker.TryLock(outer.Context(), "x", replicas) },
			"a call with 0.1": func() (*fairlock.Lease, error) {
				return locker.Lock(outer.Context(), "x", replicas, fairlock.WaitAtMost(100*time.Millisecond))
			},
		} {
			began := time.Now()
			_, err := call()
			if took := time.Since(began); took > 10*time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v after %v", what, err, took)
			}
		}
	})
}

func TestACallThatReplicasDoNotConfirmHasGivenBackTheLockWhenItReturns(t *testing.T) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		locker := kind(redistest.Start(t).Client(t))
		defer locker.Close()
		for range 50 {
			_, err := locker.TryLock(t.Context(), "x", fairlock.WithReplicas(1, 10*time.Millisecond))
			if !errors.Is(err, fairlock.ErrNotReplicated) {
				t.Fatal(err)
			}
			lease, err := locker.TryLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
