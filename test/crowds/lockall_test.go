package crowds

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
		o := owners{forces: make(map[string]int), trusted: make(map[string]owner)}
		var all sync.WaitGroup
		var ends []func()
		outcomes := make(chan string, callers*rounds)
		for c := range callers {
			l, end := s.locker(lease)
			ends = append(ends, end)
			all.Go(func() {
				for range rounds {
					forces := o.known()
					ctx, cancel := context.WithCancel(s.Context())
					wanted := make([]string, 0, len(names))
					for _, i := range rand.Perm(len(names))[:1+rand.IntN(len(names))] {
						wanted = append(wanted, names[i])
					}
					options := ending(cancel)
					err := l.DoAll(ctx, wanted, func(ctx context.Context, leases *fairlock.Leases) error {
						if rand.IntN(20) == 0 {
							o.force(wanted[0])
							s.force(l, wanted[0])
						}
						return o.alone(ctx, leases, wanted, forces)
					}, options...)
					cancel()
					outcomes <- outcome(err)
					if c == 0 && rand.IntN(4) == 0 {
						name := names[rand.IntN(len(names))]
						o.force(name) // perhaps
						s.disturb(l, name)
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

// owners is who trusts each lock.
type owners struct {
	mu      sync.Mutex // guards what follows
	forces  map[string]int
	trusted map[string]owner
}

// owner is a Lease that is trusted, and how many forces of its lock there were before its call.
type owner struct {
	lease  *fairlock.Lease
	forces int
}

// force takes in that a lock is about to be forced.
func (o *owners) force(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forces[name]++
}

// known is how many forces of each lock there were.
func (o *owners) known() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.forces)
}

// enter puts a Lease in the place of another. late says that the other has been forced, perhaps: it
// hears of that soon, and the next owner does not wait for it.
func (o *owners) enter(name string, lease *fairlock.Lease, forces int) (other *fairlock.Lease, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.trusted[name]
	o.trusted[name] = owner{lease, forces}
	return was.lease, o.forces[name] > was.forces
}

// alone fails if another call trusts one of the locks at the same time.
func (o *owners) alone(ctx context.Context, leases *fairlock.Leases, names []string, forces map[string]int) error {
	for _, name := range names {
		lease := leases.Lease(name)
		other, late := o.enter(name, lease, forces[name])
		if other == nil {
			continue
		}
		if late {
			select {
			case <-other.Done():
			case <-time.After(20 * time.Second):
			}
		}
		// Both are asked after the meeting: trust that ended before does not count.
		if other.Err() == nil && lease.Err() == nil {
			return fmt.Errorf("two trust %s, with tokens %d and %d", name, other.Token(), lease.Token())
		}
	}
	select {
	case <-time.After(rand.N(3 * time.Millisecond)):
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		if o.trusted[name].lease == leases.Lease(name) {
			delete(o.trusted, name)
		}
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
