package fairlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/redistest"
)

// Hand-overs between four Lockers on a cluster beside those on one server, in turns of 100, so that both see the same weather.
// ratio is what one on the cluster takes in terms of the other.
func BenchmarkHandoverOnACluster(b *testing.B) {
	const waiters, turn = 64, 100
	server, cluster := redistest.Start(b), redistest.StartNodes(b, 3, 5*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	begin := func(dial func() redis.UniversalClient) <-chan struct{} {
		grants := make(chan struct{})
		for range 4 {
			locker := fairlock.New(dial())
			b.Cleanup(func() { _ = locker.Close() }) // a benchmark is not about how it ends
			takeTurns(ctx, &all, locker, waiters/4, grants)
		}
		for range waiters { // everybody had a turn: all subscriptions are up, the line is full
			<-grants
		}
		return grants
	}
	one := begin(func() redis.UniversalClient { return server.Client(b) })
	many := begin(func() redis.UniversalClient { return cluster.Client(b) })
	took := func(grants <-chan struct{}) time.Duration {
		start := time.Now()
		for range turn {
			<-grants
		}
		return time.Since(start)
	}
	var onOne, onMany time.Duration
	n := 0
	for b.Loop() {
		onOne, onMany, n = onOne+took(one), onMany+took(many), n+turn
	}
	cancel()
	all.Wait()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(onOne.Nanoseconds())/float64(n), "ns/one")
	b.ReportMetric(float64(onMany.Nanoseconds())/float64(n), "ns/cluster")
	b.ReportMetric(float64(onMany)/float64(onOne), "ratio")
}
