package processes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

const (
	saga          = "saga-7"
	ownerLease    = 3 * time.Second // of processes that are killed soon
	survivorLease = 6 * time.Second
)

// family is a stage for one kind of lock, on which several processes act in the name of one owner.
// The stranger belongs to the test.
type family struct {
	*stage
	prefix   string
	plain    bool
	stranger conformance.Locker
}

func newFamily(t *testing.T, kind world.Kind, prefix string) *family {
	t.Helper()
	s := newStage(t)
	f := &family{s, prefix, prefix == "fairlock:plain", kind(s.rdb)}
	t.Cleanup(func() { _ = f.stranger.Close() }) // it never fails
	return f
}

func (f *family) worker(name string, lease time.Duration) *workers.Worker {
	f.t.Helper()
	if f.plain {
		return f.plainWorker(name, lease)
	}
	return f.stage.worker(name, lease)
}

// joins has the worker lock in the owner's name, and returns when it has the lock.
func (f *family) joins(w *workers.Worker, name, note string) (*workers.Call, workers.Event) {
	f.t.Helper()
	call := w.LockAs(saga, name, note)
	e := call.Await(workers.Granted)
	if e.Owner != saga {
		f.t.Errorf("%s holds it as %q", note, e.Owner)
	}
	return call, e
}

// waits has the worker ask for the lock without an owner's name. It returns when the worker waits:
// in line, or for a plain lock, when its process listens to releases.
func (f *family) waits(w *workers.Worker, name string) *workers.Call {
	f.t.Helper()
	call := w.Lock(name, "stranger")
	if f.plain {
		f.listen(name, 1)
	} else {
		f.inLine(name, 1)
	}
	return call
}

// refused has the stranger try the lock, which the owner must hold.
func (f *family) refused(name string) {
	f.t.Helper()
	if lease, refused, err := f.tries(name); !refused {
		f.t.Fatalf("a stranger's TryLock of the owner's lock: token %d, %v", lease.Token(), err)
	}
}

// tries has the stranger try the lock, and says whether it was refused because the owner has it.
func (f *family) tries(name string) (lease *fairlock.Lease, refused bool, err error) {
	lease, err = f.stranger.TryLock(context.Background(), name)
	held, ok := errors.AsType[*fairlock.HeldError](err)
	return lease, ok && held.Owner == saga, err
}

// kept has the stranger try again and again until then. A stranger in line would not notice if it
// could have had the lock.
func (f *family) kept(name string, until time.Time) {
	f.t.Helper()
	for f.refused(name); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		f.refused(name)
	}
}

// keptUntil is kept for a hold that ends at its deadline. A try that was answered after that says
// nothing.
func (f *family) keptUntil(name string, deadline time.Time) {
	f.t.Helper()
	const nearly = 200 * time.Millisecond
	for time.Now().Before(deadline.Add(-nearly)) {
		lease, refused, err := f.tries(name)
		switch late := !time.Now().Before(deadline); {
		case refused:
		case !late:
			f.t.Fatalf("a stranger's TryLock of the owner's lock: token %d, %v", lease.Token(), err)
		case err == nil:
			f.must(lease.Unlock(context.Background())) // for who waits
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// shows returns when Inspect shows the owner's ownership with that many Leases in that many
// processes.
func (f *family) shows(name string, token int64, depth, holds int) {
	f.t.Helper()
	f.until(fmt.Sprintf("the owner has it %d times in %d processes", depth, holds), func() bool {
		state, err := f.stranger.Inspect(context.Background(), name)
		f.must(err)
		h := state.Holder
		if h == nil || h.Owner != saga || h.Token != token {
			f.t.Fatalf("the owner's token is %d, and the holder %+v", token, h)
		}
		return h.Depth == depth && h.Holds == holds
	})
}

// left fails the test if the owner still has the lock, or if the stranger in line did not get it.
func (f *family) left(name string, token int64) {
	f.t.Helper()
	state, err := f.stranger.Inspect(context.Background(), name)
	f.must(err)
	if h := state.Holder; h == nil && !f.plain || h != nil && h.Token <= token {
		f.t.Errorf("the last hold has ended, and the holder is %+v", h)
	}
}

// deadline returns when the hold with that note ends at the server. Server and test share the
// machine's clock.
func (f *family) deadline(name, note string) time.Time {
	f.t.Helper()
	record, err := f.rdb.HGetAll(context.Background(), f.prefix+":lock:{"+name+"}").Result()
	f.must(err)
	for ticket, hold := range record {
		if strings.HasSuffix(ticket, ":"+note) {
			text, _, _ := strings.Cut(hold, ":")
			ms, err := strconv.ParseInt(text, 10, 64)
			f.must(err)
			return time.UnixMilli(ms)
		}
	}
	f.t.Fatalf("%s has no hold in %v", note, record)
	return time.Time{}
}

// renews returns just after the hold with that note was renewed. That is the worst time to kill its
// process.
func (f *family) renews(name, note string) {
	f.t.Helper()
	first := f.deadline(name, note)
	f.until(note+" renews", func() bool { return f.deadline(name, note).After(first) })
}

// served returns when the waiting call has the lock. It must not have the lock before the end of
// the owner's last hold.
func (f *family) served(waits *workers.Call, token int64, deadline time.Time) workers.Event {
	f.t.Helper()
	granted := waits.Await(workers.Granted)
	if granted.Token <= token {
		f.t.Errorf("token %d after %d", granted.Token, token)
	}
	if early := deadline.Sub(granted.At.Round(0)); early > time.Millisecond { // deadlines are in whole milliseconds
		f.t.Errorf("granted %v before the last hold's deadline", early)
	}
	return granted
}

// nothingStays is cleared for locks of both kinds.
func (f *family) nothingStays() {
	f.t.Helper()
	f.must(f.stranger.Close())
	f.cleared()
	f.plainCleared()
}

func TestAnOwnersLockIsSharedByItsProcessesAndFreeWhenTheLastHoldIsReleasedInWhateverOrder(t *testing.T) {
	t.Parallel()
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		f := newFamily(t, kind, prefix)
		a, b, next := f.worker("a", usualLease), f.worker("b", usualLease), f.worker("next", usualLease)
		for run, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			name := fmt.Sprint("x", run)
			outer, first := f.joins(a, name, "outer")
			inner, second := f.joins(a, name, "inner")
			other, third := f.joins(b, name, "other")
			if first.Token != second.Token || first.Token != third.Token || second.Depth != 2 || third.Depth != 1 {
				t.Fatalf("one owner's are %+v, %+v and %+v", first, second, third)
			}
			f.shows(name, first.Token, 3, 2)
			waits := f.waits(next, name)
			f.refused(name)

			in := []*workers.Worker{a, a, b}
			calls := []*workers.Call{outer, inner, other}
			for i, last := range order {
				in[last].Unlock(calls[last]).Await(workers.Unlocked)
				in[last] = nil
				if i == len(order)-1 {
					break
				}
				holds := 1
				if in[2] != nil && (in[0] != nil || in[1] != nil) {
					holds = 2
				}
				f.shows(name, first.Token, len(order)-1-i, holds)
				f.refused(name)
				waits.Quiet()
			}
			f.left(name, first.Token)
			f.served(waits, first.Token, time.Time{})
			next.Unlock(waits).Await(workers.Unlocked)
			for _, c := range calls {
				c.Quiet()
			}
			lease, err := f.stranger.TryLock(context.Background(), name)
			f.must(err)
			f.must(lease.Unlock(context.Background()))
		}
		a.Quit()
		b.Quit()
		next.Quit()
		f.nothingStays()
	})
}

// joint is a lock that two processes hold in the name of one owner, while a stranger waits. One of
// the two will be killed.
type joint struct {
	doomed    *workers.Worker
	survivors *workers.Call
	waits     *workers.Call
	token     int64
}

// share makes a joint lock. The two processes take turns at being the first.
func (f *family) share(run int, doomedLease time.Duration, survivor, next *workers.Worker) (string, joint) {
	f.t.Helper()
	name := fmt.Sprint("x", run)
	j := joint{doomed: f.worker("doomed", doomedLease)}
	var one, two workers.Event
	if run%2 == 1 {
		_, one = f.joins(j.doomed, name, "doomed")
		j.survivors, two = f.joins(survivor, name, "survivor")
	} else {
		j.survivors, one = f.joins(survivor, name, "survivor")
		_, two = f.joins(j.doomed, name, "doomed")
	}
	if j.token = one.Token; two.Token != j.token {
		f.t.Fatalf("one owner's tokens are %d and %d", j.token, two.Token)
	}
	f.shows(name, j.token, 2, 2)
	j.waits = f.waits(next, name)
	return name, j
}

func TestWhenOneOfAnOwnersProcessesIsKilledTheOtherKeepsTheLockAndFreesItAtOnce(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	bothAtOnce(t, func(t *testing.T, kind world.Kind, prefix string) {
		f := newFamily(t, kind, prefix)
		survivor, next := f.worker("survivor", survivorLease), f.worker("next", usualLease)
		run := 0
		within(t, 100*time.Millisecond, func() time.Duration {
			run++
			return f.outlive(run, survivor, next)
		})
		survivor.Quit()
		next.Quit()
		f.nothingStays()
	})
}

// outlive kills one of an owner's two processes. The other keeps the lock for a lease of its own
// longer than the dead one's hold lasts. outlive returns how long the stranger then takes from the
// Unlock until it has the lock.
func (f *family) outlive(run int, survivor, next *workers.Worker) time.Duration {
	f.t.Helper()
	name, j := f.share(run, ownerLease, survivor, next)
	j.doomed.Kill()
	f.kept(name, f.deadline(name, "doomed").Add(survivorLease))
	f.shows(name, j.token, 1, 1)
	j.survivors.Quiet()
	j.waits.Quiet()
	unlock := survivor.Unlock(j.survivors)
	unlock.Await(workers.Unlocked)
	f.left(name, j.token)
	granted := f.served(j.waits, j.token, time.Time{})
	next.Unlock(j.waits).Await(workers.Unlocked)
	return granted.At.Sub(unlock.Sent)
}

func TestWhenAnOwnersSurvivingProcessUnlocksAStrangerHasTheLockAtTheEndOfTheKilledOnesLease(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	bothAtOnce(t, func(t *testing.T, kind world.Kind, prefix string) {
		tests := make(map[string]func(*testing.T))
		for _, lease := range []time.Duration{ownerLease, usualLease} {
			tests[fmt.Sprint("survivor's lease ", lease)] = func(t *testing.T) {
				f := newFamily(t, kind, prefix)
				survivor, next := f.worker("survivor", lease), f.worker("next", usualLease)
				run := 0
				within(t, ownerLease+100*time.Millisecond, func() time.Duration {
					run++
					return f.outlast(run, survivor, next)
				})
				survivor.Quit()
				next.Quit()
				f.nothingStays()
			}
		}
		atOnce(t, tests)
	})
}

// outlast kills one of an owner's two processes, and has the other unlock at once. It returns how
// long the stranger takes from the kill until it has the lock.
func (f *family) outlast(run int, survivor, next *workers.Worker) time.Duration {
	f.t.Helper()
	name, j := f.share(run, ownerLease, survivor, next)
	f.renews(name, "doomed")
	killed := time.Now()
	j.doomed.Kill()
	survivor.Unlock(j.survivors).Await(workers.Unlocked)
	deadline := f.deadline(name, "doomed")
	f.shows(name, j.token, 1, 1)
	f.keptUntil(name, deadline)
	granted := f.served(j.waits, j.token, deadline)
	f.t.Logf("run %d: granted %v after the killed one's deadline", run, granted.At.Round(0).Sub(deadline))
	next.Unlock(j.waits).Await(workers.Unlocked)
	return granted.At.Sub(killed)
}

func TestWhenAllOfAnOwnersProcessesAreKilledAStrangerHasTheLockAtTheEndOfTheLongestLease(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	bothAtOnce(t, func(t *testing.T, kind world.Kind, prefix string) {
		f := newFamily(t, kind, prefix)
		next := f.worker("next", usualLease)
		run := 0
		within(t, 2*ownerLease+100*time.Millisecond, func() time.Duration {
			run++
			longer := f.worker("longer", 2*ownerLease)
			name, j := f.share(run, ownerLease, longer, next)
			f.renews(name, "doomed")
			killed := time.Now()
			longer.Kill()
			j.doomed.Kill()
			deadline := f.deadline(name, "survivor") // its process was killed too
			f.keptUntil(name, deadline)
			granted := f.served(j.waits, j.token, deadline)
			next.Unlock(j.waits).Await(workers.Unlocked)
			return granted.At.Sub(killed)
		})
		next.Quit()
		f.nothingStays()
	})
}
