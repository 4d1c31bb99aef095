package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

var several = []string{"x", "y", "z"}

// takesAll notes the Leases of a LockAll as those of a user.
func (f *faulty) takesAll(leases *fairlock.Leases) {
	for _, name := range several {
		f.Took(leases.Lease(name))
	}
}

func (f *faulty) unlocksAll(leases *fairlock.Leases) {
	f.Helper()
	for _, name := range several {
		f.Ends(leases.Lease(name))
	}
	f.Must(leases.Unlock(background))
	for _, name := range several {
		f.nobody(name)
	}
}

func TestSeveralLocksOneOfWhoseGrantsWasLostOnTheWayAreHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		f.Unlocks(a.Locks("w"))
		reply := f.Once(theSecond(f.Verb("enter")), lost)
		var leases *fairlock.Leases
		f.Within(world.Soon, "LockAll", func() {
			var err error
			leases, err = a.LockAll(background, several)
			f.Must(err)
		})
		reply.WaitExecuted(f, 1, world.Patience)
		f.takesAll(leases)
		f.unlocksAll(leases)
	})
}

func TestSeveralLocksOneOfWhoseReleasesWasLostOnTheWayAreReleasedOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		leases, err := a.LockAll(background, several)
		f.Must(err)
		f.takesAll(leases)
		reply := f.Once(theSecond(f.Verb("leave")), lost)
		f.unlocksAll(leases)
		reply.WaitExecuted(f, 1, world.Patience)
	})
}

func TestLockAllsThatAreExecutedAfterTheirCallerGaveUpHoldNothing(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Patient()
		f.Unlocks(a.Locks("w"))
		ctx, cancel := context.WithCancel(background)
		failed := make(chan error, 1)
		enter := f.Verb("enter")
		before := f.Proxy.Count(enter)
		execute := f.late(enter, func() {
			go func() {
				_, err := a.LockAll(ctx, several)
				failed <- err
			}()
		})
		f.Until("all are sent", func() bool { return f.Proxy.Count(enter) >= before+len(several) })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			f.Errorf("it says %v", err)
		}
		execute()
		for _, name := range several {
			f.endsUpFree(name)
		}
	})
}

func TestAServerThatIsStoppedHangsNoLockAllAndNoUnlockOfSeveralLocks(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Beside(fairlock.WithLease(30*time.Second)), f.Beside()
	leases, err := a.LockAll(background, several)
	f.Must(err)
	f.takesAll(leases)
	f.Unlocks(b.Locks("w"))
	f.Server.Pause()
	var all sync.WaitGroup
	isOver := func(what string, in time.Duration, call func() error) {
		f.timed(&all, what, in, func() error {
			if err := call(); !errors.Is(err, context.DeadlineExceeded) {
				f.Errorf("%s says %v", what, err)
			}
			return nil
		})
	}
	isOver("LockAll with a deadline", boundOnStopped, func() error {
		_, err := b.LockAll(fromNow(boundOnStopped), []string{"u", "v"})
		return err
	})
	isOver("LockAll with a bound", boundOnStopped, func() error {
		_, err := b.LockAll(background, []string{"u", "v"}, fairlock.WaitAtMost(boundOnStopped))
		return err
	})
	for _, name := range several {
		f.Ends(leases.Lease(name))
	}
	isOver("Unlock", 1500*time.Millisecond, func() error { return leases.Unlock(fromNow(0)) })
	all.Wait()
	f.Server.Resume()
	f.Must(leases.Unlock(background))
	for _, name := range append([]string{"u", "v"}, several...) {
		f.endsUpFree(name)
	}
}

func TestARefusalThatPassesEndsNoLockAllThatHasWaited(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind()
		holder := f.Beside().Locks("x")
		type outcome struct {
			leases *fairlock.Leases
			err    error
		}
		ended := make(chan outcome, 1)
		go func() {
			leases, err := a.LockAll(background, append([]string{"w"}, several...))
			ended <- outcome{leases, err}
		}()
		f.Until("it waits for x", func() bool { return f.Line("x") == 1 })
		refused := f.All(f.Verb("enter", "try"), faultproxy.RewriteReply(func([]byte) []byte { return []byte("-LOADING later\r\n") }))
		f.Unlocks(holder)
		refused.WaitExecuted(f, 2, world.Patience) // those of y and z
		refused.Remove()
		got := <-ended
		f.Must(got.err)
		f.takesAll(got.leases)
		f.Took(got.leases.Lease("w"))
		f.Ends(got.leases.Lease("w"))
		f.unlocksAll(got.leases)
	})
}

func TestANestedLockAllWaitsThroughAnOutageAsANestedLockDoes(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind()
		lease := a.Locks("x", fairlock.LeaseFor(time.Minute))
		f.Proxy.Freeze(true)
		time.AfterFunc(1300*time.Millisecond, func() { f.Proxy.Freeze(false) }) // a try would give up
		leases, err := a.LockAll(lease.Context(), []string{"x"}, fairlock.LeaseFor(2*time.Minute))
		f.Must(err)
		f.Must(leases.Unlock(background))
		f.Unlocks(lease)
		f.nobody("x")
	})
}

func TestSeveralLocksAreReleasedThoughTheEarlierReleaseOfOneIsUnanswered(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind()
		leases, err := a.LockAll(background, several)
		f.Must(err)
		f.takesAll(leases)
		stuck := f.All(f.Verb("leave", f.Keys("x").Record()), faultproxy.HoldRequest())
		for _, name := range several {
			f.Ends(leases.Lease(name))
		}
		if err := leases.Lease("x").Unlock(fromNow(0)); !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("got %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- leases.Unlock(background) }()
		f.Within(world.Soon, "the release of the others", func() {
			f.Until("they are free", func() bool { return f.Holder("y") == 0 && f.Holder("z") == 0 })
		})
		if len(ended) > 0 {
			f.Error("Unlock did not wait for the third")
		}
		stuck.Remove()
		stuck.Release()
		f.Must(<-ended)
	})
}
