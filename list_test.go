package fairlock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestAListOfManyLocksShowsEachOnceAndLeavesOthersKeysAlone(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	bothKinds(t, func(t *testing.T, kind newLocker, prefix string) {
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
		if stats := rdb.Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_keys:") {
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
		queues(locker, name, fairlock.Note("next of "+name))
		queues(locker, name)
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
	if stats := rdb.Info(t.Context(), "commandstats").Val(); seen != n || !strings.Contains(stats, fmt.Sprintf("cmdstat_hgetall:calls=%d,", n)) {
		t.Errorf("%d shown: %s", seen, stats)
	}
}

func TestADamagedLockIsShownAsDamagedEndsNoListAndCanBeForced(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		for _, kind := range []newLocker{newFair, newPlain} {
			f.must(f.direct.FlushAll(faultCtx).Err())
			locker := kind(f.direct)
			good, err := locker.Lock(faultCtx, "good")
			f.must(err)
			for _, prefix := range []string{"fairlock", "fairlock:plain"} {
				f.must(f.direct.HSet(faultCtx, prefix+":lock:{bad}", "owner", "me", "token", "y", "lease", "x", "a:b", "c").Err())
			}
			damaged := make(map[string]bool)
			for state, err := range locker.List(faultCtx) {
				f.must(err)
				damaged[state.Name] = state.Damaged != nil
			}
			if len(damaged) != 2 || damaged["good"] || !damaged["bad"] {
				f.Errorf("listed, and whether damaged: %v", damaged)
			}
			state, err := locker.Inspect(faultCtx, "bad")
			f.must(err)
			if state.Damaged == nil || state.Holder == nil || state.Holder.Owner != "me" || state.Holder.Token != 0 {
				f.Errorf("inspected: %+v", state)
			}
			f.must(locker.ForceUnlock(faultCtx, "bad"))
			bad, err := locker.TryLock(faultCtx, "bad")
			f.must(err)
			f.must(bad.Unlock(faultCtx))
			f.must(good.Unlock(faultCtx))
			f.must(locker.Close())
		}
		f.must(f.direct.FlushAll(faultCtx).Err())
	})
}
