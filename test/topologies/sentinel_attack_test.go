package topologies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// Behind sentinels, a master is replaced while it lives, then another stands still, and then one is
// killed. Replicas without a master do not answer.
func TestWhateverClientsAndCallbacksDoAFailoverEndsAndNoCallIsLate(t *testing.T) {
	t.Parallel()
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		s := redistest.StartSentinels(t)
		for _, node := range append(slices.Clone(s.Replicas()), s.Master()) {
			if err := node.Client(t).ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err(); err != nil {
				t.Fatal(err)
			}
		}
		r := newReferee(t)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		locker := func(change func(*redis.FailoverOptions)) conformance.Locker {
			l := kind(s.Client(t, change), quietly, fairlock.WithLease(4*time.Second))
			t.Cleanup(func() { _ = l.Close() }) // it never fails
			return l
		}
		use := func(l conformance.Locker, n int, options ...fairlock.LockOption) {
			for i := range n {
				dice := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				all.Go(func() { r.use(ctx, l, fmt.Sprint("lock ", i%3), dice, options...) })
			}
		}
		for _, change := range []func(*redis.FailoverOptions){
			func(*redis.FailoverOptions) {},
			func(o *redis.FailoverOptions) { o.ContextTimeoutEnabled = true },
			func(o *redis.FailoverOptions) { o.PoolSize = 1 },
			func(o *redis.FailoverOptions) { o.ReadTimeout = -1 },
		} {
			use(locker(change), 9)
		}
		back := locker(func(*redis.FailoverOptions) {})
		use(back, 3, fairlock.OnQueued(func(int) { // asks, locks, and takes its time, which is its call's
			brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, _ = back.Inspect(brief, "lock 0") // a master may be away
			if lease, err := back.Lock(brief, "other"); err == nil {
				_ = lease.Unlock(brief) // the lease may be lost
			}
			pause(ctx, 100*time.Millisecond)
		}))
		all.Go(func() {
			closers(ctx, r, func() conformance.Locker { return kind(s.Client(t), quietly, fairlock.WithLease(2*time.Second)) })
		})

		r.goOn(t)
		r.verdict(t, false, false) // no harm has been done yet
		s.SwitchMaster()
		r.goOn(t)
		paused := s.Master()
		paused.Pause()
		time.Sleep(700 * time.Millisecond)
		paused.Resume()
		r.goOn(t)
		s.KillMaster()
		r.goOn(t)
		stop()
		all.Wait()
		r.verdict(t, true, true) // the last grants of the old master are lost, and a first request may fail
	})
}

// closers makes Lockers, has calls wait with them, and closes them.
func closers(ctx context.Context, r *referee, makes func() conformance.Locker) {
	for n := 0; ctx.Err() == nil; n++ {
		l := makes()
		var users sync.WaitGroup
		for i := range 3 {
			dice := rand.New(rand.NewPCG(uint64(i), uint64(n)))
			users.Go(func() { r.use(ctx, l, fmt.Sprint("lock ", i), dice) })
		}
		pause(ctx, time.Duration(n*53%300)*time.Millisecond)
		_ = l.Close() // it never fails
		took := r.takes()
		users.Wait()
		r.came("users of a closed Locker", took, 5*time.Second, nil) // an Unlock may take as long
	}
}
