package topologies

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestAHundredLocksOfOneServerThatNobodyElseWantsTakeTheRequestsOfOne(t *testing.T) {
	inOneTrip(t, "%d", countingOn(t, redistest.Start(t)))
}

func locksOfOneSlotInOneTrip(t *testing.T, c *redistest.Cluster) {
	inOneTrip(t, "{slot}%d", countingOnAll(t, c))
}

// inOneTrip fails unless a hundred locks are had in one round trip, and given back in one.
func inOneTrip(t *testing.T, names string, dial func(*counting) redis.UniversalClient) {
	for kind, of := range map[string]world.Kind{"fair": world.Fair, "plain": world.Plain} {
		var n counting
		locker := of(dial(&n))
		t.Cleanup(func() { _ = locker.Close() })
		var all []string
		for i := range 100 {
			all = append(all, fmt.Sprintf(names, i))
		}
		ctx := context.Background()
		for round := range 3 {
			n.trips.Store(0)
			leases, err := locker.LockAll(ctx, all)
			if err != nil {
				t.Fatal(err)
			}
			had := n.trips.Swap(0)
			if err := leases.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
			// The first round makes contact, and the server has no script yet.
			if left := n.trips.Load(); round > 0 && (had != 1 || left != 1) {
				t.Errorf("%s: %d locks took %d round trips, and to unlock them took %d", kind, len(all), had, left)
			}
		}
	}
}
