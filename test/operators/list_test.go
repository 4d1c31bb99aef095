package operators

import (
	"fmt"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestAListOfManyLocksShowsEachOnceAndLeavesOthersKeysAlone(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(server.Client(t))
		defer locker.Close()
		const n = 350 // several pages
		leases := make(map[string]*fairlock.Lease)
		for i := range n {
			name := fmt.Sprint("lock ", i)
			lease, err := locker.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			leases[name] = lease
		}
		for i, set := range []error{
			rdb.Set(t.Context(), prefix+":lock:", "not ours", 0).Err(),
			rdb.Set(t.Context(), prefix+":lock:{theirs}", "not ours", 0).Err(),
			rdb.Set(t.Context(), prefix+":quite:{else}", "not ours", 0).Err(),
			rdb.Set(t.Context(), "x"+prefix+":lock:{else}", "not ours", 0).Err(),
		} {
			if set != nil {
				t.Fatal(i, set)
			}
		}
		seen := 0
		var held []*fairlock.Lease
		for s, err := range locker.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			lease := leases[s.Name]
			if lease == nil || s.Holder == nil || s.Holder.Token != lease.Token() {
				t.Fatalf("%+v", s)
			}
			delete(leases, s.Name)
			held = append(held, lease)
			seen++
		}
		for _, lease := range held {
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if seen != n {
			t.Errorf("%d of %d shown", seen, n)
		}
		if redistest.Calls(t, rdb, "keys") > 0 {
			t.Error("KEYS was called")
		}
	})
}

func TestAListShowsWhoIsNextAndLooksAtEachLockOnce(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	locker := quietLocker(t, server)
	const n = 40
	for i := range n {
		name := fmt.Sprint("lock ", i)
		if _, err := locker.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		world.Queue(locker, name, fairlock.Note("next of "+name))
		world.Queue(locker, name)
	}
	if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for s, err := range locker.List(t.Context()) {
		if err != nil || s.Waiting != 2 || len(s.Waiters) != 1 || s.Waiters[0].Note != "next of "+s.Name || s.Waiters[0].Waited <= 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		seen++
	}
	if looks := redistest.Calls(t, rdb, "hgetall"); seen != n || looks != n {
		t.Errorf("%d shown, with %d looks", seen, looks)
	}
}

func TestADamagedLockIsShownAsDamagedEndsNoListAndCanBeForced(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		for _, kind := range []world.Kind{world.Fair, world.Plain} {
			f.Must(f.Direct.FlushAll(f.Context()).Err())
			locker := kind(f.Direct)
			good, err := locker.Lock(f.Context(), "good")
			f.Must(err)
			for _, prefix := range []string{"fairlock", "fairlock:plain"} {
				f.Must(f.Direct.HSet(f.Context(), prefix+":lock:{bad}", "owner", "me", "token", "y", "lease", "x", "a:b", "c").Err())
			}
			damaged := make(map[string]bool)
			for state, err := range locker.List(f.Context()) {
				f.Must(err)
				damaged[state.Name] = state.Damaged != nil
			}
			if len(damaged) != 2 || damaged["good"] || !damaged["bad"] {
				f.Errorf("listed, and whether damaged: %v", damaged)
			}
			state, err := locker.Inspect(f.Context(), "bad")
			f.Must(err)
			if state.Damaged == nil || state.Holder == nil || state.Holder.Owner != "me" || state.Holder.Token != 0 {
				f.Errorf("inspected: %+v", state)
			}
			f.Must(locker.ForceUnlock(f.Context(), "bad"))
			bad, err := locker.TryLock(f.Context(), "bad")
			f.Must(err)
			f.Must(bad.Unlock(f.Context()))
			f.Must(good.Unlock(f.Context()))
			f.Must(locker.Close())
		}
		f.Must(f.Direct.FlushAll(f.Context()).Err())
	})
}
