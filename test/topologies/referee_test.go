package topologies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/world"
)

var quietly = fairlock.WithLogger(slog.New(slog.DiscardHandler))

// referee judges locks that are used while servers, networks and callbacks misbehave. It goes by
// Err, by contexts, and by when calls return.
type referee struct {
	stalls *world.Stalls

	mu       sync.Mutex // guards all below
	live     map[string][]*fairlock.Lease
	served   int
	overlaps []string
	latest   time.Duration // by how much the latest call missed its bound
	lateOne  string        // which one that was
	errs     map[string]error
}

func newReferee(t *testing.T) *referee {
	t.Helper()
	stalls := world.WatchStalls()
	t.Cleanup(stalls.Close)
	return &referee{stalls: stalls, live: make(map[string][]*fairlock.Lease), errs: make(map[string]error)}
}

// had notes that a call has a lock.
func (r *referee) had(l *fairlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served++
	for _, o := range r.live[l.Name()] {
		if o.Err() == nil && l.Err() == nil {
			r.overlaps = append(r.overlaps, "by Err: "+l.Name())
		}
		if o.Context().Err() == nil && l.Context().Err() == nil {
			r.overlaps = append(r.overlaps, "by the context: "+l.Name())
		}
	}
	r.live[l.Name()] = append(r.live[l.Name()], l)
}

// ends notes that the holder is about to unlock, or to stop working under the lock.
func (r *referee) ends(l *fairlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[l.Name()] = slices.DeleteFunc(r.live[l.Name()], func(o *fairlock.Lease) bool { return o == l })
}

func (r *referee) turns() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served
}

// takes returns a function that says how long a call has taken that begins now. The time for which
// the machine stood still does not count.
func (r *referee) takes() (took func() time.Duration) {
	began, stood := time.Now(), r.stalls.Total()
	return func() time.Duration { return time.Since(began) - (r.stalls.Total() - stood) }
}

// came notes when a call with a bound returned, and its error. It ignores the errors of calls that
// were refused or lost their lock.
func (r *referee) came(call string, took func() time.Duration, bound time.Duration, err error) {
	after := took()
	r.mu.Lock()
	defer r.mu.Unlock()
	if bound > 0 && after-bound > r.latest {
		r.latest, r.lateOne = after-bound, fmt.Sprintf("%s with a bound of %v: %v", call, bound, err)
	}
	for _, fine := range []error{fairlock.ErrHeld, fairlock.ErrLost, fairlock.ErrClosed, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, fine) {
			return
		}
	}
	if err != nil {
		r.errs[err.Error()] = err
	}
}

// use locks and unlocks until ctx ends or the Locker is closed. Some calls have a bound, of either
// kind.
func (r *referee) use(ctx context.Context, l conformance.Locker, name string, dice *rand.Rand, options ...fairlock.LockOption) {
	for ctx.Err() == nil {
		bound, calls := time.Duration(300+dice.IntN(1500))*time.Millisecond, options
		call, cancel := context.WithCancel(ctx)
		kind := "a lock"
		switch dice.IntN(3) {
		case 0:
			kind, calls = "a lock with WaitAtMost", append(slices.Clone(options), fairlock.WaitAtMost(bound))
		case 1:
			kind = "a lock with a deadline"
			call, cancel = context.WithTimeout(ctx, bound)
		default:
			bound = 0
		}
		took := r.takes()
		lease, err := l.Lock(call, name, calls...)
		r.came(kind, took, bound, err)
		cancel()
		if errors.Is(err, fairlock.ErrClosed) {
			return
		}
		if err != nil {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		r.had(lease)
		pause(lease.Context(), time.Duration(dice.IntN(10))*time.Millisecond)
		r.ends(lease)
		took = r.takes()
		err = lease.Unlock(context.Background())
		r.came("an unlock", took, 5*time.Second, err)
	}
}

// goOn returns when 50 more calls have been served.
func (r *referee) goOn(t *testing.T) {
	t.Helper()
	before := r.turns()
	world.Until(t, "they go on", func() bool { return r.turns() > before+50 })
}

// verdict objects to late calls, and to overlaps and failed calls unless overlapping and failing
// allow them.
func (r *referee) verdict(t *testing.T, overlapping, failing bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d turns, %d overlaps, %d errors; the latest came %v after its bound: %s", r.served, len(r.overlaps), len(r.errs), r.latest, r.lateOne)
	if len(r.overlaps) > 0 && !overlapping {
		t.Errorf("two had a lock: %q", r.overlaps)
	}
	if r.latest > world.Soon {
		t.Errorf("a call came back %v after its bound: %s", r.latest, r.lateOne)
	}
	for _, err := range r.errs {
		if !failing {
			t.Error(err)
		}
	}
}
