package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/redistest"
)

// BenchmarkALine has 8 or 64 waiters hammer one fair lock for a few seconds: all in Java, half of
// them in Go, all in Go. The JVMs have worked for as long before, to be warm. A wait is what a caller
// in Go sees, or one in Java if there is none in Go.
func BenchmarkALine(b *testing.B) {
	java.Require(b)
	const lasts = 8 * time.Second
	for _, waiters := range []int{8, 64} {
		for _, inGo := range []int{0, waiters / 2, waiters} {
			b.Run(fmt.Sprintf("waiters=%d/inGo=%d", waiters, inGo), func(b *testing.B) {
				server := redistest.Start(b)
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
				defer func() { _ = rdb.Close() }()
				hammer := hammers(b, server.Addr(), waiters-inGo)
				hammer("warm", lasts)
				cpu, scripts := usage(b, rdb)
				end := hammer("x", lasts)
				waits := turns(b, server.Addr(), inGo, lasts)
				inJava, waited := end()
				cpu2, scripts2 := usage(b, rdb)
				if len(waits) == 0 {
					waits = waited
				}
				slices.Sort(waits)
				all := inJava
				if inGo > 0 {
					all += len(waits)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(all)/lasts.Seconds(), "turns/s")
				b.ReportMetric(float64(all-inJava)/lasts.Seconds(), "inGo/s")
				b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "ms-wait-p50")
				b.ReportMetric(float64(scripts2-scripts)/float64(all), "scripts/turn")
				b.ReportMetric((cpu2-cpu)*1e6/float64(all), "server-µs/turn")
			})
		}
	}
}

// hammers starts two JVMs with so many threads in all. What it returns has them hammer; the end of
// that tells the turns and how long each waited.
func hammers(b *testing.B, addr string, threads int) func(name string, d time.Duration) (end func() (int, []time.Duration)) {
	b.Helper()
	if threads == 0 {
		return func(string, time.Duration) func() (int, []time.Duration) {
			return func() (int, []time.Duration) { return 0, nil }
		}
	}
	var jvms []*java.JVM
	for range 2 {
		jvms = append(jvms, java.Start(b, java.Config{Addrs: []string{addr}, Full: true}))
	}
	return func(name string, d time.Duration) func() (int, []time.Duration) {
		var calls []*java.Call
		for _, j := range jvms {
			calls = append(calls, j.Thread(name).Hammer(java.Hammer{Kind: java.Fair, Name: name, Threads: threads / 2, For: d, Tells: true}))
		}
		end := func() (turns int, waits []time.Duration) {
			for _, call := range calls {
				h, err := call.Hammered(context.Background())
				if err != nil || h.Failures > 0 {
					b.Fatal(err, h.Failure)
				}
				turns += h.Granted
				for _, g := range call.Grants() {
					waits = append(waits, g.Granted-g.Asked)
				}
			}
			return turns, waits
		}
		if name == "warm" {
			end()
		}
		return end
	}
}

// turns has so many callers of two Lockers take turns, and returns how long each waited.
func turns(b *testing.B, addr string, callers int, d time.Duration) (waits []time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var mu sync.Mutex // guards waits
	var all sync.WaitGroup
	var ends []func() error
	for range min(callers, 2) {
		rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64})
		l := redisson.New(rdb)
		ends = append(ends, l.Close, rdb.Close)
		for range callers / 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					lease, err := l.Lock(ctx, "x")
					if err != nil {
						return
					}
					waited := time.Since(began)
					_ = lease.Unlock(ctx)
					mu.Lock()
					waits = append(waits, waited)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for _, end := range ends {
		_ = end()
	}
	return waits
}

// usage is the server's CPU seconds and scripts so far.
func usage(b *testing.B, rdb *redis.Client) (cpu float64, scripts int) {
	b.Helper()
	info := rdb.InfoMap(context.Background(), "cpu").Val()
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			b.Fatal(err)
		}
		cpu += seconds
	}
	return cpu, redistest.Scripts(b, rdb)
}
