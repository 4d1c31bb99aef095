package topologies

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/redistest"
)

// BenchmarkQuorumPair is a lock that nobody else wants, had and given back: on one node by package
// fairlock, and on three and five.
func BenchmarkQuorumPair(b *testing.B) {
	pair := func(b *testing.B, l fairlock.Interface) {
		for b.Loop() {
			lease, err := l.Lock(context.Background(), "x")
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Unlock(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("one node", func(b *testing.B) {
		rdb := redistest.Start(b).Client(b)
		l := fairlock.New(rdb)
		defer func() { _ = l.Close() }()
		pair(b, l)
	})
	for name, n := range map[string]int{"three nodes": 3, "five nodes": 5} {
		b.Run(name, func(b *testing.B) {
			var nodes []redis.UniversalClient
			for range n {
				nodes = append(nodes, redistest.Start(b).Client(b))
			}
			l := quorum.New(nodes)
			defer func() { _ = l.Close() }()
			if err := l.Init(context.Background()); err != nil {
				b.Fatal(err)
			}
			pair(b, l)
		})
	}
}
