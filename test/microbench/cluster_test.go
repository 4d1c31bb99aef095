package microbench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// gaps are the times between a release and the next grant.
type gaps struct {
	released atomic.Int64 // when, in nanoseconds since the start
	sum, n   atomic.Int64
}

// serve has the lockers' waiters hand the lock on, each after a millisecond.
func (g *gaps) serve(ctx context.Context, b *testing.B, all *sync.WaitGroup, dial func() redis.UniversalClient) {
	const lockers, waiters = 4, 16
	start := time.Now()
	for range lockers {
		locker := fairlock.New(dial())
		b.Cleanup(func() { _ = locker.Close() }) // a benchmark does not check how it ends
		for range waiters {
			all.Go(func() {
				for {
					lease, err := locker.Lock(ctx, "x")
					if err != nil {
						return
					}
					g.sum.Add(int64(time.Since(start)) - g.released.Load())
					g.n.Add(1)
					time.Sleep(time.Millisecond)
					g.released.Store(int64(time.Since(start)))
					_ = lease.Unlock(ctx) // if this fails, so does the next Lock
				}
			})
		}
	}
}

// BenchmarkHandoverOnACluster measures the gap between two holders on a cluster and on one server.
// Both run at the same time, so they see the same weather. ratio is the gap on the cluster in units
// of the other.
func BenchmarkHandoverOnACluster(b *testing.B) {
	server, _ := world.Replicated(b) // each master of the cluster has a replica too
	cluster := redistest.StartNodes(b, 3, 5*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var one, many gaps
	one.serve(ctx, b, &all, func() redis.UniversalClient { return server.Client(b) })
	many.serve(ctx, b, &all, func() redis.UniversalClient { return cluster.Client(b) })
	for many.n.Load() < 200 || one.n.Load() < 200 { // after that, all subscriptions are up
		time.Sleep(time.Millisecond)
	}
	mean := func(g *gaps) func() float64 {
		sum, n := g.sum.Load(), g.n.Load()
		return func() float64 { return float64(g.sum.Load()-sum) / float64(g.n.Load()-n) }
	}
	onOne, onMany := mean(&one), mean(&many)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	gapOfOne, gapOfMany := onOne(), onMany()
	cancel()
	all.Wait()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(gapOfOne, "ns/one")
	b.ReportMetric(gapOfMany, "ns/cluster")
	b.ReportMetric(gapOfMany/gapOfOne, "ratio")
}
