package processes

import (
	"context"
	"fmt"
	"testing"
	"time"

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
		{5000, false, 250 * time.Millisecond},
		{5000, true, 250 * time.Millisecond},
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
				run++
				return s.killHolder(fmt.Sprint("x", run), lease, next)
			})
			next.Quit()
			s.cleared()
		})
	}
}

// killHolder kills the holder of a lock just after a renewal, which is the worst time. It returns
// how long next takes to get the lock.
func (s *stage) killHolder(name string, lease time.Duration, next *workers.Worker) time.Duration {
	s.t.Helper()
	ctx := context.Background()
	record := "fairlock:lock:{" + name + "}"
	holder := s.worker("holder", lease)
	before := holder.Lock(name, "holder").Await(workers.Granted)
	waits := next.Lock(name, "next")
	s.inLine(name, 1)

	last := lease
	var asked time.Time
	s.until("the holder renews", func() bool {
		asked = time.Now()
		left := s.rdb.PTTL(ctx, record).Val()
		renewed := left > last
		last = left
		return renewed
	})
	killed := time.Now()
	holder.Kill()
	granted := waits.Await(workers.Granted)
	// The record's end is in whole milliseconds.
	if early := last - granted.At.Sub(asked); early > time.Millisecond {
		s.t.Errorf("granted %v before the lease had ended", early)
	}
	if granted.Token <= before.Token {
		s.t.Errorf("token %d after %d", granted.Token, before.Token)
	}
	next.Unlock(waits).Await(workers.Unlocked)
	return granted.At.Sub(killed)
}
