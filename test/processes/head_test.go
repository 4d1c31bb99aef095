package processes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
)

func TestTheNextInLineHasTheLockAtOnceThoughThoseBeforeItWereKilled(t *testing.T) {
	t.Parallel()
	machine.Lock()
	defer machine.Unlock()
	for _, test := range []struct {
		dead      int
		monitored bool
		bound     time.Duration
	}{
		{1, false, 50 * time.Millisecond},
		{1, true, 50 * time.Millisecond},
		{5000, false, lua.Claim / 3}, // a busy machine takes half a second for the ten requests
		{5000, true, lua.Claim / 3},  // that remove the dead; a grant in vain would cost a claim
	} {
		name := fmt.Sprintf("%d dead", test.dead)
		if test.monitored {
			name += ", all channels monitored"
		}
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if test.monitored {
				s.monitor()
			}
			holder, next := s.worker("holder", usualLease), s.worker("next", usualLease)
			run := 0
			within(t, test.bound, func() time.Duration {
				run++
				return s.passOver(fmt.Sprint("x", run), test.dead, holder, next)
			})
			holder.Quit()
			next.Quit()
			s.cleared()
		})
	}
}

// monitor subscribes to all channels, as a watching operator would.
func (s *stage) monitor() {
	s.t.Helper()
	all := s.rdb.PSubscribe(context.Background(), "*")
	_, err := all.Receive(context.Background())
	s.must(err)
	s.t.Cleanup(func() { _ = all.Close() }) // how it ends does not matter
	all.Channel()                           // reads and drops the messages
}

// passOver kills the first in line. It returns how long next takes from the Unlock until it has the
// lock.
func (s *stage) passOver(name string, dead int, holder, next *workers.Worker) time.Duration {
	s.t.Helper()
	held := holder.Lock(name, "holder")
	before := held.Await(workers.Granted)
	victim := s.worker("victim", usualLease)
	victim.Crowd(name, "dead", dead)
	s.inLine(name, int64(dead))
	waits := next.Lock(name, "next")
	s.inLine(name, int64(dead)+1)
	s.until("no request is under way", redistest.Settled(s.t, s.rdb))

	victim.Kill()
	unlock := holder.Unlock(held)
	granted := waits.Await(workers.Granted)
	unlock.Await(workers.Unlocked)
	if granted.Token <= before.Token {
		s.t.Errorf("token %d after %d", granted.Token, before.Token)
	}
	next.Unlock(waits).Await(workers.Unlocked)
	return granted.At.Sub(unlock.Sent)
}

func TestTheNextInLineHasTheLockWhenTheLeaseOfAKilledHolderEnds(t *testing.T) {
	t.Parallel()
	machine.RLock()
	defer machine.RUnlock()
	for _, lease := range []time.Duration{time.Second, 2 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			s := newStage(t)
			next := s.worker("next", usualLease)
			run := 0
			within(t, lease+100*time.Millisecond, func() time.Duration {
				return s.killHolders(&run, func(name string) kill {
					worker := func() *workers.Worker { return s.worker("holder", lease) }
					waits := func() *workers.Call {
						call := next.Lock(name, "next")
						s.inLine(name, 1)
						return call
					}
					return kill{"fairlock:lock:{" + name + "}", worker, waits, next}
				})
			})
			next.Quit()
			s.cleared()
		})
	}
}

// end returns when the server ends a lock's record, and whether the record is still the owner's.
// The end is in whole milliseconds of the machine's clock, which is the test's too.
func (s *stage) end(record, owner string) (time.Time, bool) {
	s.t.Helper()
	at, err := s.rdb.PExpireTime(context.Background(), record).Result()
	s.must(err)
	// Asked later, the owner is who had the record at that end.
	return time.UnixMilli(at.Milliseconds()), s.rdb.HGet(context.Background(), record, "owner").Val() == owner
}

// kill is a scene in which the holder of a lock is killed just after a renewal. That is the worst
// time.
type kill struct {
	record string // its key
	worker func() *workers.Worker
	waits  func() *workers.Call // next asks, and waits when this returns
	next   *workers.Worker
}

// killHolder plays the scene. It returns how long next then takes to get the lock. It is false if
// the holder was too slow to renew: on a busy machine a process may not run for a while.
func (s *stage) killHolder(name string, k kill) (took time.Duration, renewed bool) {
	s.t.Helper()
	holder := k.worker()
	before := holder.Lock(name, "holder").Await(workers.Granted)
	waits := k.waits()

	first, has := s.end(k.record, before.Owner)
	last := first
	s.until("the holder renews", func() bool {
		var end time.Time
		if end, has = s.end(k.record, before.Owner); has {
			last = end
		}
		return !has || end.After(first)
	})
	killed := time.Now()
	holder.Kill()
	end, still := s.end(k.record, before.Owner)
	if still {
		last = end
	}
	granted := waits.Await(workers.Granted)
	if early := last.Sub(granted.At.Round(0)); early > time.Millisecond {
		s.t.Errorf("granted %v before the lease had ended", early)
	}
	if granted.Token <= before.Token {
		s.t.Errorf("token %d after %d", granted.Token, before.Token)
	}
	k.next.Unlock(waits).Await(workers.Unlocked)
	return granted.At.Sub(killed), has && still
}

// killHolders plays the scene with one name after the other, until the holder has renewed.
func (s *stage) killHolders(run *int, scene func(name string) kill) time.Duration {
	s.t.Helper()
	const tries = 10
	for range tries {
		*run++
		name := fmt.Sprint("x", *run)
		if took, renewed := s.killHolder(name, scene(name)); renewed {
			return took
		}
		s.t.Logf("run %d: the holder lost the lock before it was killed", *run)
	}
	s.t.Fatalf("%d holders did not renew in time", tries)
	return 0
}
