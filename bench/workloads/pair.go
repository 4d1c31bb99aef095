package workloads

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/locks/bench/host"
)

// pair is workload 1.
var pair = Workload{
	Name:  "pair",
	Title: "1. An uncontended pair",
	About: "One goroutine of one process locks and unlocks one key, again and again. Latency is that of Lock and Unlock together, server " +
		"CPU is the server process's (network included), client CPU and allocations are all of the worker's process.",
	Columns: []Column{
		{"p50", "p50 us"},
		{"p99", "p99 us"},
		{"requests", "requests"},
		{"in", "bytes to server"},
		{"out", "bytes back"},
		{"server", "server CPU us"},
		{"client", "client CPU us"},
		{"allocs", "allocations"},
		{"bytes", "bytes allocated"},
	},
	Plot:  "p50",
	Cases: func(s Scale) []Case { return []Case{{Label: strconv.Itoa(s.Pairs) + " pairs", Size: s.Pairs}} },
	Run: func(ctx context.Context, b *Bench) (Sample, error) {
		return b.pairs(ctx, PairsArgs{Key: b.Key, Goroutines: 1, Each: b.Scale.Pairs})
	},
	Goals: func(at Lookup) []Goal {
		return []Goal{
			ratio(at, "latency within 1.25x of two no-op EVALSHAs", "p50", ours, "2 no-op EVALSHAs", 1.25),
			ratio(at, "server CPU at most 1.5x of SET NX PX + compare-and-delete", "server", ours, "SET NX + delete", 1.5),
			goal("at most 25 allocations beyond go-redis's own for two scripts", func() (float64, bool) {
				a, ok := first(at, ours, "allocs")
				n, ok2 := first(at, "2 no-op EVALSHAs", "allocs")
				return a - n, ok && ok2
			}, atMost(25)),
			goal("two requests", func() (float64, bool) { return first(at, ours, "requests") }, atMost(2)),
		}
	},
}

// keys is workload 2.
var keys = Workload{
	Name:  "keys",
	Title: "2. 64 goroutines with keys of their own",
	About: "One process; each of 64 goroutines locks and unlocks a key of its own. '+auto' is the same library on go-redis' AutoPipeline, " +
		"which puts what is asked for at the same time into one write; it is a drop-in for the client. rueidislock's client does so by itself.",
	Columns: []Column{
		{"rate", "pairs/s"},
		{"p50", "p50 us"},
		{"p99", "p99 us"},
		{"requests", "requests"},
		{"server", "server CPU us"},
		{"client", "client CPU us"},
		{"allocs", "allocations"},
	},
	Plot:  "rate",
	Cases: func(Scale) []Case { return []Case{{Label: "64 keys", Size: 64}} },
	Run: func(ctx context.Context, b *Bench) (Sample, error) {
		return b.pairs(ctx, PairsArgs{Key: b.Key, Goroutines: 64, For: b.Scale.Keys})
	},
	Goals: func(at Lookup) []Goal {
		return []Goal{
			ratioLeast(at, "at least redislock's pairs/s", "rate", ours, "redislock", 1),
			ratioLeast(at, "with 64 connections at least redislock's", "rate", "fairlock 64 conns", "redislock 64 conns", 1),
			ratioLeast(at, "with deadlines at least redislock's", "rate", "fairlock deadlines", "redislock deadlines", 1),
			ratioLeast(at, "with AutoPipeline at least rueidislock's", "rate", "fairlock +auto", "rueidislock", 1),
		}
	},
}

// PairsArgs asks for pairs: a number for each goroutine, or as many as fit in a time.
type PairsArgs struct {
	Key        string
	Goroutines int
	Each       int
	For        time.Duration
}

// PairsReply is how long the pairs took.
type PairsReply struct {
	Pairs         int
	Elapsed       time.Duration
	P50, P99      time.Duration
	CPU           time.Duration
	Allocs, Bytes uint64
}

func (b *Bench) pairs(ctx context.Context, args PairsArgs) (Sample, error) {
	hired, err := b.hire(ctx, 1, 1, b.Scale.Long)
	if err != nil {
		return nil, err
	}
	warm := args
	warm.Each, warm.For = args.Each/5, args.For/5
	if err := hired[0].Call(ctx, "Pairs", warm, &PairsReply{}); err != nil {
		return nil, err
	}
	var r PairsReply
	stats, err := b.used(ctx, func() error { return hired[0].Call(ctx, "Pairs", args, &r) })
	if err != nil {
		return nil, err
	}
	n := float64(r.Pairs)
	return Sample{
		"p50": us(r.P50), "p99": us(r.P99), "rate": n / r.Elapsed.Seconds(),
		"requests": b.requests(stats) / n, "in": float64(stats.In) / n, "out": float64(stats.Out) / n,
		"server": us(stats.CPU) / n, "client": us(r.CPU) / n,
		"allocs": float64(r.Allocs) / n, "bytes": float64(r.Bytes) / n,
	}, nil
}

// Pairs locks and unlocks again and again.
func (w *Worker) Pairs(args PairsArgs, r *PairsReply) error {
	took := make([][]time.Duration, args.Goroutines)
	failed := make(chan error, args.Goroutines)
	for i := range took {
		took[i] = make([]time.Duration, 0, max(args.Each, 1<<14)) // else its growth would be counted
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := host.CPU(), time.Now()
	var all sync.WaitGroup
	for i := range took {
		all.Go(func() {
			key := args.Key + strconv.Itoa(i)
			for len(took[i]) < args.Each || time.Since(start) < args.For {
				began := time.Now()
				lock, err := w.locker.Lock(context.Background(), key, nil)
				if err == nil {
					err = lock.Unlock(context.Background())
				}
				if err != nil {
					failed <- err
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	all.Wait()
	r.Elapsed, r.CPU = time.Since(start), host.CPU()-cpu
	runtime.ReadMemStats(&after)
	r.Allocs, r.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	var each []time.Duration
	for _, t := range took {
		each = append(each, t...)
	}
	r.Pairs, r.P50, r.P99 = len(each), quantile(each, 0.50), quantile(each, 0.99)
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
