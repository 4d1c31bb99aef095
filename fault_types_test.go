package fairlock_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// kinds are the four keys of a lock, and the word for what a string under one of them is to Redis.
var kinds = map[string]struct {
	key  func(lua.Keys) string
	says string
}{
	"record":  {func(k lua.Keys) string { return k.Record() }, "WRONGTYPE"},
	"queue":   {func(k lua.Keys) string { return k.Queue() }, "WRONGTYPE"},
	"waiters": {func(k lua.Keys) string { return k.Waiters() }, "WRONGTYPE"},
	"token":   {func(k lua.Keys) string { return k.Token() }, "token"}, // it is one; but this one is no number
}

// onEachKey runs the test for each of the four keys.
func onEachKey(t *testing.T, test func(f *faulty, key, says string)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for what, kind := range kinds {
		tests[what] = func(t *testing.T) { onFaulty(t, func(f *faulty) { test(f, kind.key(f.keys("x")), kind.says) }) }
	}
	together(t, tests)
}

// occupies puts a string of somebody else's under a key. The returned function takes it away.
func (f *faulty) occupies(key string) (yields func()) {
	f.Helper()
	f.must(f.direct.Set(faultCtx, key, "mine", time.Minute).Err())
	return func() {
		f.Helper()
		if got := f.direct.GetDel(faultCtx, key).Val(); got != "mine" {
			f.Errorf("%s was overwritten: %q", key, got)
		}
	}
}

// unchanged fails if act changes anything on the server but the time that keys have left.
func (f *faulty) unchanged(act func()) {
	f.Helper()
	content := func() string {
		var lines []string
		for line := range strings.Lines(f.dump()) {
			line, _, _ = strings.Cut(line, " for ")
			lines = append(lines, line)
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
		yields := f.occupies(key)
		l := f.beside().Interface
		f.unchanged(func() { f.refuses(l, "x", refusal{says: says}) })
		if state, err := l.Inspect(faultCtx, "x"); key == f.keys("x").Token() {
			f.must(err)
			if state.Damaged == nil || !strings.Contains(state.Damaged.Error(), says) {
				f.Errorf("it is damaged: %v", state.Damaged)
			}
		} else {
			f.inspectRefused(l, "x", refusal{says: says})
		}
		yields()
		f.nobody("x")
	})
}

func TestAReleaseOverAStringUnderAKeyOfTheLockIsAClearErrorAndNothingIsHalfDone(t *testing.T) {
	onEachKey(t, func(f *faulty, key, says string) {
		brief := fairlock.WithLease(briefLease)
		lease := f.beside(brief).locks("x", fairlock.LeaseFor(briefLease))
		w := f.beside(brief).queues("x", 1)
		f.heard(1)
		yields := f.occupies(key)
		f.ends(lease)
		f.unchanged(func() {
			f.refused("unlock", "x", refusal{says: says}, func() error { return lease.Unlock(faultCtx) })
		})
		yields()
		next := f.beside(brief).asks(faultCtx, "x")
		var all sync.WaitGroup
		all.Go(func() {
			if err := w.end(); err == nil || !w.hasReturned() { // it may have been told so too, or have waited on
				w.passesOn()
			}
		})
		all.Go(next.passesOn)
		all.Wait()
		f.until("no ghost is left", func() bool { return f.holder("x") == 0 && f.line("x") == 0 })
	})
}

func TestAStringUnderOneLocksRecordDoesNotEndTheOthers(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.behind(fairlock.WithLease(briefLease))
		leases := []*fairlock.Lease{a.locks("x"), a.locks("y"), a.locks("z")}
		yields := f.occupies(f.keys("y").Record())
		<-leases[1].Done()
		time.Sleep(briefLease) // for as long as the others could live without a renewal
		f.keeps(leases[0])
		f.keeps(leases[2])
		f.unlocks(leases[0])
		f.unlocks(leases[2])
		yields()
		f.ends(leases[1])
		f.nobody("y")
	})
}
