package microbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// BenchmarkUncontended runs an uncontended Lock and Unlock beside two no-op EVALSHAs on the same
// client. They take turns of 100, so both see the same weather. ratio is the cost of the pair in
// units of the no-ops.
//
// Where the context can end and the client ignores that, the requests are sent from another
// goroutine. The last case is two scripts with the same nine calls and arguments, and nothing else.
// That is what the protocol costs without any decisions.
func BenchmarkUncontended(b *testing.B) {
	ending, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	obeys := func(o *redis.Options) { o.ContextTimeoutEnabled = true }
	b.Run("context_without_end", func(b *testing.B) { uncontended(b, context.Background()) })
	b.Run("context_obeyed_by_the_client", func(b *testing.B) { uncontended(b, ending, obeys) })
	b.Run("context_that_ends", func(b *testing.B) { uncontended(b, ending) })
	b.Run("plain", func(b *testing.B) {
		rdb := redistest.Start(b).Client(b)
		uncontendedWith(b, context.Background(), rdb, world.Plain(rdb))
	})
	b.Run("the_calls_alone", theCallsAlone)
}

func uncontended(b *testing.B, ctx context.Context, options ...func(*redis.Options)) {
	rdb := redistest.Start(b).Client(b, options...)
	uncontendedWith(b, ctx, rdb, fairlock.New(rdb))
}

func uncontendedWith(b *testing.B, ctx context.Context, rdb *redis.Client, locker fairlock.Interface) {
	defer locker.Close()
	besideNoops(b, rdb, func() {
		lease, err := locker.Lock(ctx, "x")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	})
}

func theCallsAlone(b *testing.B) {
	ctx := context.Background()
	rdb := redistest.Start(b).Client(b)
	enter := rdb.ScriptLoad(ctx, `
		redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3])
		redis.call('GET', KEYS[4])
		redis.call('TIME')
		redis.call('SET', KEYS[4], '1790000000000000', 'PXAT', '9999999999999')
		redis.call('HSET', KEYS[1], 'owner', ARGV[8], 'token', '1790000000000000', 'since', '1790000000000', 'lease', ARGV[7], ARGV[9], '9999999999999:1')
		redis.call('PEXPIREAT', KEYS[1], '9999999999999')
		return {1, 2}`).Val()
	leave := rdb.ScriptLoad(ctx, `
		redis.call('EXISTS', KEYS[2], KEYS[3])
		redis.call('HDEL', KEYS[1], ARGV[4])
		redis.call('DEL', KEYS[1])
		return 1`).Val()
	keys := []string{"fairlock:lock:{x}", "fairlock:queue:{x}", "fairlock:waiters:{x}", "fairlock:token:{x}"}
	const client = "7f9c2ba4-e88f-427d-b2a1-0c2f5a3d1e46"
	entered := []any{"wait", 1790000000000000, 30000, "PUBLISH", "fairlock:wake:", client, "30000", client + ":1", client + ":1:30000::", 0, 0}
	left := []any{"PUBLISH", "fairlock:wake:", client, client + ":1:30000::", 0, 1790000000000000, "0"}
	besideNoops(b, rdb, func() {
		rdb.EvalSha(ctx, enter, keys, entered...)
		if err := rdb.EvalSha(ctx, leave, keys, left...).Err(); err != nil {
			b.Fatal(err)
		}
	})
}

// besideNoops runs pair and two no-ops in turns.
func besideNoops(b *testing.B, rdb *redis.Client, pair func()) {
	ctx := context.Background()
	noop := rdb.ScriptLoad(ctx, "return 1").Val()
	pair()
	const turn = 100
	var ours, floor time.Duration
	n := 0
	before := redistest.Scripts(b, rdb)
	for b.Loop() {
		start := time.Now()
		for range turn {
			pair()
		}
		between := time.Now()
		for range turn {
			rdb.EvalSha(ctx, noop, nil)
			rdb.EvalSha(ctx, noop, nil)
		}
		ours, floor, n = ours+between.Sub(start), floor+time.Since(between), n+turn
	}
	after := redistest.Scripts(b, rdb)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours.Nanoseconds())/float64(n), "ns/pair")
	b.ReportMetric(float64(floor.Nanoseconds())/float64(n), "ns/2noops")
	b.ReportMetric(float64(ours)/float64(floor), "ratio")
	b.ReportMetric(float64(after-before)/float64(n)-2, "requests/pair")
}

// BenchmarkUncontendedAllocations counts the allocations of a pair, and of the two bare commands.
func BenchmarkUncontendedAllocations(b *testing.B) {
	server := redistest.Start(b)
	rdb := server.Client(b)
	locker := fairlock.New(rdb)
	defer locker.Close()
	ctx := context.Background()
	noop := rdb.ScriptLoad(ctx, "return 1").Val()
	b.Run("pair", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lease, err := locker.Lock(ctx, "x")
			if err != nil {
				b.Fatal(err)
			}
			_ = lease.Unlock(ctx)
		}
	})
	b.Run("2noops", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rdb.EvalSha(ctx, noop, nil)
			rdb.EvalSha(ctx, noop, nil)
		}
	})
}

// BenchmarkRefused runs a TryLock of a lock that is held, by another process or by this one.
func BenchmarkRefused(b *testing.B) {
	server := redistest.Start(b)
	for where, kind := range map[string]world.Kind{"fair": world.Fair, "plain": world.Plain} {
		rdb := server.Client(b)
		here, elsewhere := kind(rdb), kind(server.Client(b))
		b.Cleanup(func() { _, _ = here.Close(), elsewhere.Close() }) // a benchmark does not check how they end
		for name, holder := range map[string]fairlock.Interface{"by_another": elsewhere, "here": here} {
			lease, err := holder.Lock(context.Background(), where+name)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(where+"/"+name, func(b *testing.B) {
				_, _ = here.TryLock(context.Background(), where+name)
				before := redistest.Scripts(b, rdb)
				n := 0
				for b.Loop() {
					if _, err := here.TryLock(context.Background(), where+name); !errors.Is(err, fairlock.ErrHeld) {
						b.Fatal(err)
					}
					n++
				}
				after := redistest.Scripts(b, rdb)
				b.ReportMetric(float64(after-before)/float64(n), "requests/op")
			})
			_ = lease.Unlock(context.Background())
		}
	}
}

// BenchmarkNested runs a nested Lock and Unlock, which send no request while the caller waits.
func BenchmarkNested(b *testing.B) {
	server := redistest.Start(b)
	rdb := server.Client(b)
	locker := fairlock.New(rdb)
	defer locker.Close()
	outer, err := locker.Lock(context.Background(), "x")
	if err != nil {
		b.Fatal(err)
	}
	ctx := outer.Context()
	before := redistest.Scripts(b, rdb)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		inner, err := locker.Lock(ctx, "x")
		if err != nil {
			b.Fatal(err)
		}
		_ = inner.Unlock(ctx)
		n++
	}
	after := redistest.Scripts(b, rdb)
	b.ReportMetric(float64(after-before)/float64(n), "requests/op")
	_ = outer.Unlock(ctx)
}

// BenchmarkHandover runs hand-overs between four Lockers with a client each, with more and more
// waiters in line.
func BenchmarkHandover(b *testing.B) {
	for _, waiters := range []int{8, 64, 256, 1024} {
		b.Run(fmt.Sprintf("%d_waiters", waiters), func(b *testing.B) { handover(b, waiters) })
	}
}

// takeTurns has n goroutines lock, report that and unlock until ctx ends.
func takeTurns(ctx context.Context, all *sync.WaitGroup, locker *fairlock.Locker, n int, grants chan<- struct{}) {
	for range n {
		all.Go(func() {
			for {
				lease, err := locker.Lock(ctx, "x")
				if err != nil {
					return
				}
				select {
				case grants <- struct{}{}:
				case <-ctx.Done():
				}
				_ = lease.Unlock(ctx)
			}
		})
	}
}

func handover(b *testing.B, waiters int) {
	server := redistest.Start(b)
	admin := server.Client(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	grants := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		locker := fairlock.New(server.Client(b))
		b.Cleanup(func() { _ = locker.Close() })
		takeTurns(ctx, &all, locker, waiters/4, grants)
	}
	for range waiters { // after a turn of each, all subscriptions are up and the line is full
		<-grants
	}
	scripts, publishes := redistest.Scripts(b, admin), redistest.Calls(b, admin, "publish")
	n := 0
	for b.Loop() {
		<-grants
		n++
	}
	elapsed := b.Elapsed()
	scripts2, publishes2 := redistest.Scripts(b, admin), redistest.Calls(b, admin, "publish")
	cancel()
	all.Wait()
	b.ReportMetric(float64(n)/elapsed.Seconds(), "grants/s")
	b.ReportMetric(float64(scripts2-scripts)/float64(n), "requests/grant")
	b.ReportMetric(float64(publishes2-publishes)/float64(n), "publishes/grant")
}

// BenchmarkTurns is 16 goroutines of one process that contend for one lock: each turn passes
// without a request.
func BenchmarkTurns(b *testing.B) {
	server := redistest.Start(b)
	for name, kind := range map[string]world.Kind{"fair": world.Fair, "plain": world.Plain} {
		b.Run(name, func(b *testing.B) {
			rdb := server.Client(b)
			locker := kind(rdb)
			defer locker.Close() // it never fails
			before := redistest.Scripts(b, rdb)
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						lease, err := locker.Lock(context.Background(), name)
						if err != nil {
							b.Error(err)
							return
						}
						_ = lease.Unlock(context.Background())
					}
				})
			}
			all.Wait()
			after := redistest.Scripts(b, rdb)
			b.ReportMetric(float64(after-before)/float64(b.N), "requests/op")
		})
	}
}
