package faults

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// kinds are the four keys of a lock, and what a lock says when a string is stored under that key.
var kinds = map[string]struct {
	key  func(lua.Keys) string
	says string
}{
	"record":  {func(k lua.Keys) string { return k.Record() }, "WRONGTYPE"},
	"queue":   {func(k lua.Keys) string { return k.Queue() }, "WRONGTYPE"},
	"waiters": {func(k lua.Keys) string { return k.Waiters() }, "WRONGTYPE"},
	// The token is a string anyway, but this one is no number.
	"token": {func(k lua.Keys) string { return k.Token() }, "token"},
}

// onEachKey runs the test for each of the four keys.
func onEachKey(t *testing.T, test func(f *faulty, key, says string)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for what, kind := range kinds {
		tests[what] = func(t *testing.T) { onFaulty(t, func(f *faulty) { test(f, kind.key(f.Keys("x")), kind.says) }) }
	}
	world.Together(t, tests)
}

// unchanged fails if act changes anything on the server except the remaining life of keys.
func (f *faulty) unchanged(act func()) {
	f.Helper()
	content := func() string {
		var lines []string
		for line := range strings.Lines(redistest.Dump(f.Direct)) {
			if line, _, _ = strings.Cut(line, " for "); !strings.HasPrefix(line, "fairlock:protocol ") { // no lock's
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	before := content()
	act()
	if after := content(); after != before {
		f.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

func TestAStringUnderAKeyOfTheLockIsAClearErrorAndNothingIsHalfDone(t *testing.T) {
	onEachKey(t, func(f *faulty, key, says string) {
		yields := f.Occupies(key)
		l := f.Beside().Interface
		f.unchanged(func() { f.Refuses(l, "x", world.Refusal{Says: says}) })
		if state, err := l.Inspect(background, "x"); key == f.Keys("x").Token() {
			f.Must(err)
			if state.Damaged == nil || !strings.Contains(state.Damaged.Error(), says) {
				f.Errorf("it is damaged: %v", state.Damaged)
			}
		} else {
			f.InspectRefused(l, "x", world.Refusal{Says: says})
		}
		yields()
		f.nobody("x")
	})
}

func TestAReleaseOverAStringUnderAKeyOfTheLockIsAClearErrorAndNothingIsHalfDone(t *testing.T) {
	onEachKey(t, func(f *faulty, key, says string) {
		calm := fairlock.WithLease(world.CalmLease)
		waiter := f.Beside(calm)
		f.meet(waiter)
		lease := f.Beside(calm).Locks("x", fairlock.LeaseFor(keptLease))
		w := waiter.Queues("x", 1)
		f.Heard(1)
		yields := f.Occupies(key)
		f.Ends(lease)
		f.unchanged(func() {
			f.Refused("unlock", "x", world.Refusal{Says: says}, func() error { return lease.Unlock(background) })
		})
		yields()
		next := f.Beside(calm).Asks(background, "x")
		var all sync.WaitGroup
		all.Go(func() {
			// The call may have failed with the same error, or have waited on.
			if err := w.End(); err == nil || !w.HasReturned() {
				w.PassesOn()
			}
		})
		all.Go(next.PassesOn)
		all.Wait()
		f.Until("no ghost is left", func() bool { return f.Holder("x") == 0 && f.Line("x") == 0 })
	})
}

func TestAStringUnderOneLocksRecordDoesNotEndTheOthers(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind(fairlock.WithLease(world.CalmLease))
		leases := []*fairlock.Lease{a.Locks("x"), a.Locks("y"), a.Locks("z")}
		yields := f.Occupies(f.Keys("y").Record())
		<-leases[1].Done()
		time.Sleep(world.CalmLease) // as long as the other locks could live without a renewal
		f.Keeps(leases[0])
		f.Keeps(leases[2])
		f.Unlocks(leases[0])
		f.Unlocks(leases[2])
		yields()
		f.Ends(leases[1])
		f.nobody("y")
	})
}
