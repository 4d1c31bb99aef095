package topologies

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func TestAHundredLocksOfOneServerThatNobodyElseWantsTakeTheRequestsOfOne(t *testing.T) {
	server := redistest.Start(t)
	inOneTrip(t, "%d", func(count trips) redis.UniversalClient {
		rdb := server.Client(t)
		rdb.AddHook(count)
		return rdb
	})
}

func locksOfOneSlotInOneTrip(t *testing.T, c *redistest.Cluster) {
	inOneTrip(t, "{slot}%d", func(count trips) redis.UniversalClient {
		rdb := c.Client(t)
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(count) })
		return rdb
	})
}

// inOneTrip fails unless a hundred locks are had in one round trip, and given back in one.
func inOneTrip(t *testing.T, names string, dial func(trips) redis.UniversalClient) {
	for kind, of := range map[string]world.Kind{"fair": world.Fair, "plain": world.Plain} {
		var n atomic.Int64
		locker := of(dial(trips{&n}))
		t.Cleanup(func() { _ = locker.Close() })
		var all []string
		for i := range 100 {
			all = append(all, fmt.Sprintf(names, i))
		}
		ctx := context.Background()
		for round := range 3 {
			n.Store(0)
			leases, err := locker.LockAll(ctx, all)
			if err != nil {
				t.Fatal(err)
			}
			had := n.Swap(0)
			if err := leases.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
			// The first round makes contact, and the server has no script yet.
			if left := n.Load(); round > 0 && (had != 1 || left != 1) {
				t.Errorf("%s: %d locks took %d round trips, and to unlock them took %d", kind, len(all), had, left)
			}
		}
	}
}

// trips counts the round trips of a client, or of one node in a cluster's client.
type trips struct{ n *atomic.Int64 }

func (c trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}
