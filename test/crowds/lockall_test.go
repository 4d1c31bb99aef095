package crowds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// Calls for some of five locks at once, and for single ones, meet everything that may end them:
// deadlines, bounds, full lines, fixed leases, force, connections that are cut and a server that
// stands still. Whoever trusts a lock trusts it alone, and nothing stays.
func TestCallsForSeveralLocksThatEndInEveryWayLeaveNothingAndNeverShareALock(t *testing.T) {
	onEachKind(t, nil, func(s *site) {
		const callers, rounds, lease = 12, 60, time.Second
		names := strings.Split("abcde", "")
		var owners sync.Map // by lock: the Lease that is trusted
		var all sync.WaitGroup
		var ends []func()
		outcomes := make(chan string, callers*rounds)
		for c := range callers {
			l, end := s.locker(lease)
			ends = append(ends, end)
			all.Go(func() {
				for range rounds {
					ctx, cancel := context.WithCancel(s.Context())
					wanted := make([]string, 0, len(names))
					for _, i := range rand.Perm(len(names))[:1+rand.IntN(len(names))] {
						wanted = append(wanted, names[i])
					}
					options := ending(cancel)
					err := l.DoAll(ctx, wanted, func(ctx context.Context, leases *fairlock.Leases) error {
						if rand.IntN(20) == 0 {
							s.force(l, wanted[0])
						}
						return s.alone(ctx, &owners, leases, wanted)
					}, options...)
					cancel()
					outcomes <- outcome(err)
					if c == 0 && rand.IntN(4) == 0 {
						s.disturb(l, names[rand.IntN(len(names))])
					}
				}
			})
		}
		all.Wait()
		close(outcomes)
		seen := make(map[string]int)
		for o := range outcomes {
			seen[o]++
		}
		s.Log(seen)
		for o, n := range seen {
			if strings.HasPrefix(o, "wrong: ") {
				s.Errorf("%d times %s", n, o)
			}
		}
		for _, want := range []string{"done", "held", "lost"} {
			if seen[want] == 0 {
				s.Errorf("nobody's call ended so: %s", want)
			}
		}
		for _, end := range ends {
			end()
		}
	})
}

// ending are options by which a call for several locks may end without them. The call may also be
// cancelled.
func ending(cancel func()) []fairlock.LockOption {
	soon := rand.N(30 * time.Millisecond)
	switch rand.IntN(6) {
	case 0:
		time.AfterFunc(soon, cancel)
	case 1:
		return []fairlock.LockOption{fairlock.WaitAtMost(soon)}
	case 2:
		return []fairlock.LockOption{fairlock.MaxWaiters(2)}
	case 3:
		return []fairlock.LockOption{fairlock.LeaseFor(200 * time.Millisecond)}
	case 4:
		return []fairlock.LockOption{fairlock.WaitAtMost(0)}
	}
	return nil
}

// alone fails if another call trusts one of the locks at the same time.
func (s *site) alone(ctx context.Context, owners *sync.Map, leases *fairlock.Leases, names []string) error {
	for _, name := range names {
		lease := leases.Lease(name)
		if other, taken := owners.Swap(name, lease); taken {
			// Both are asked after the meeting: trust that ended before does not count.
			if other := other.(*fairlock.Lease); other.Err() == nil && lease.Err() == nil {
				return fmt.Errorf("two trust %s, with tokens %d and %d", name, other.Token(), lease.Token())
			}
		}
	}
	select {
	case <-time.After(rand.N(3 * time.Millisecond)):
	case <-ctx.Done():
	}
	for _, name := range names {
		owners.CompareAndDelete(name, leases.Lease(name))
	}
	return leases.Err()
}

// disturb does something to a lock, to connections or to the server.
func (s *site) disturb(l fairlock.Interface, name string) {
	switch rand.IntN(3) {
	case 0:
		s.force(l, name)
	case 1:
		s.admin.ClientKillByFilter(s.Context(), "TYPE", "normal", "SKIPME", "yes")
	case 2:
		s.server.Pause()
		time.Sleep(rand.N(30 * time.Millisecond))
		s.server.Resume()
	}
}

// force ends an ownership, if there is one and its request is not cut off.
func (s *site) force(l fairlock.Interface, name string) {
	err := l.ForceUnlock(s.Context(), name)
	if err != nil && !errors.Is(err, fairlock.ErrNotHeld) && outcome(err) != "cut" {
		s.Error(err)
	}
}

// outcome is a word for how a call ended, or "wrong: " and the error.
func outcome(err error) string {
	for word, why := range map[string]error{
		"held": fairlock.ErrHeld, "full": fairlock.ErrQueueFull, "lost": fairlock.ErrLost,
		"cancelled": context.Canceled, "deadline": context.DeadlineExceeded,
	} {
		if errors.Is(err, why) {
			return word
		}
	}
	if err == nil {
		return "done"
	}
	if !strings.Contains(err.Error(), "two trust") && !errors.As(err, new(redis.Error)) {
		return "cut" // only a first request fails so
	}
	return "wrong: " + err.Error()
}
