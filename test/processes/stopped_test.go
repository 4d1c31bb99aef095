//go:build unix

package processes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

func TestAStoppedHeadOfTheLineIsPassedOverAndLaterServedInItsTurn(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	for _, test := range []struct {
		stopped      int
		lease, claim time.Duration
	}{
		{1, usualLease, world.Claim},
		{3, 2 * time.Second, 2 * time.Second}, // a claim is never longer than the lease
	} {
		t.Run(fmt.Sprint(test.stopped, " stopped"), func(t *testing.T) {
			s := newStage(t)
			holder, next := s.worker("holder", usualLease), s.worker("next", usualLease)
			held := holder.Lock("x", "holder")
			held.Await(workers.Granted)
			var sleepers []*workers.Worker
			var sleep []*workers.Call
			for i := range test.stopped {
				w := s.worker(fmt.Sprint("sleeper ", i), test.lease)
				sleepers, sleep = append(sleepers, w), append(sleep, w.Lock("x", fmt.Sprint(i)))
				s.inLine("x", int64(i+1))
			}
			waits := next.Lock("x", "next")
			s.inLine("x", int64(test.stopped+1))
			for _, w := range sleepers {
				w.Stop()
			}
			unlock := holder.Unlock(held)
			granted := waits.Await(workers.Granted)
			unlock.Await(workers.Unlocked)

			claims := time.Duration(test.stopped) * test.claim
			took := granted.At.Sub(unlock.Sent)
			t.Logf("took %v, promised are %v", took, claims+world.EnterInterval)
			if took > claims+world.EnterInterval {
				t.Errorf("took %v, longer than %v", took, claims+world.EnterInterval)
			}
			// A record's end is in whole milliseconds.
			if took < claims-time.Duration(test.stopped)*time.Millisecond {
				t.Errorf("took %v: somebody's claim was not respected", took)
			}
			s.awake(sleepers, sleep, func() { next.Unlock(waits).Await(workers.Unlocked) }, granted.Token)
			holder.Quit()
			next.Quit()
			s.cleared()
		})
	}
}

// awake lets stopped waiters go on, the last one first, while another process holds the lock with
// the given token. The waiters find the grant that they slept through, and must not believe it.
// They must stand in line again as before, and be served when the lock is free.
func (s *stage) awake(sleepers []*workers.Worker, sleep []*workers.Call, free func(), token int64) {
	s.t.Helper()
	for _, w := range slices.Backward(sleepers) {
		w.Continue()
	}
	s.inLine("x", int64(len(sleepers)))
	for _, c := range sleep {
		c.Quiet()
	}
	free()
	for i, c := range sleep {
		granted := c.Await(workers.Granted)
		if granted.Token <= token {
			s.t.Errorf("sleeper %d has token %d after %d", i, granted.Token, token)
		}
		token = granted.Token
		for _, later := range sleep[i+1:] {
			later.Quiet()
		}
		sleepers[i].Unlock(c).Await(workers.Unlocked)
		sleepers[i].Quit()
	}
}

func TestAStoppedHolderLearnsThatTheLockIsLostWhenItGoesOn(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	s := newStage(t)
	holder, next := s.worker("holder", world.CalmLease), s.worker("next", usualLease)
	held := holder.Lock("x", "holder")
	before := held.Await(workers.Granted)
	waits := next.Lock("x", "next")
	s.inLine("x", 1)
	holder.Stop()
	after := waits.Await(workers.Granted)
	holder.Continue()
	if lost := held.Await(workers.Lost); lost.Token != before.Token || before.Token >= after.Token {
		t.Errorf("lost %d, held %d, then held by another %d", lost.Token, before.Token, after.Token)
	}
	holder.Unlock(held).Await(workers.Failed) // the lease was lost, so this Unlock is not clean
	waits.Quiet()
	next.Unlock(waits).Await(workers.Unlocked)
	holder.Quit()
	next.Quit()
	s.cleared()
}
