package web

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// BenchmarkServer measures what the live screen costs a server with 500 locks and 10,000 waiters,
// in percent of a core:
//
//	go test -run '^$' -bench Server -benchtime 1x ./internal/web
//
// The last case is one lock with all the waiters. The screen shows its line; fairlock watch looks
// at a lock in the same way.
//
// The benchmark looks for half a minute at copies of the keys of real locks. The server has nothing
// else to do, so all its work is for the screen. What the server uses when it is idle is
// subtracted.
func BenchmarkServer(b *testing.B) {
	for _, size := range []struct {
		locks, waiters int
		line           bool
	}{{10, 50, false}, {500, 10_000, false}, {1, 10_000, true}} {
		b.Run(fmt.Sprintf("%d_locks_%d_waiters", size.locks, size.waiters), func(b *testing.B) {
			rdb := stillLife(b, size.locks, size.waiters)
			locker := fairlock.New(rdb, fairlock.WithPrefix("still"), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
			defer locker.Close()
			source := survey.New(look.NewPace(time.Second, rdb), locks.Locker{Kind: locks.Fair, Interface: locker})
			for range b.N {
				idle := busy(b, rdb, 10*time.Second, func(ctx context.Context) { <-ctx.Done() })
				count := 0
				all := busy(b, rdb, 30*time.Second, func(ctx context.Context) {
					for ctx.Err() == nil {
						seen, next := looks(ctx, b, source, size.line)
						if seen != size.waiters {
							b.Errorf("%d waiters were seen", seen)
						}
						count++
						select {
						case <-ctx.Done():
						case <-time.After(next):
						}
					}
				})
				b.ReportMetric(100*(all-idle), "server-%")
				b.ReportMetric(30/float64(count), "s/look")
				b.ReportMetric(1000*(all-idle)*30/float64(count), "server-ms/look")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkPage measures what the page costs such a server while browsers have it open: ten with
// all locks, five each with the page of one of two locks.
//
//	go test -run '^$' -bench Page -benchtime 1x ./internal/web
func BenchmarkPage(b *testing.B) {
	rdb := stillLife(b, 500, 10_000)
	for range b.N {
		idle := busy(b, rdb, 10*time.Second, func(ctx context.Context) { <-ctx.Done() })
		c := servesUnder(b, "still", rdb.Options().Addr, false, "")
		var browsers sync.WaitGroup
		open := func(path string, n int) {
			for range n {
				browser := c.listens(path)
				browsers.Go(browser.drain)
				b.Cleanup(browsers.Wait)
				b.Cleanup(browser.close)
			}
		}
		open("/events", 10)
		open(in("/events", "order:0"), 5)
		open(in("/events", "order:1"), 5)
		all := busy(b, rdb, 60*time.Second, func(ctx context.Context) { <-ctx.Done() })
		b.ReportMetric(100*(all-idle), "server-%")
		b.ReportMetric(c.site.watcher.see(b.Context(), everything).rest.Seconds(), "s/look")
		b.ReportMetric(0, "ns/op")
	}
}

// looks looks once. It returns how many waiters there are and when to look again.
func looks(ctx context.Context, b *testing.B, source *survey.Survey, line bool) (waiters int, next time.Duration) {
	b.Helper()
	if line {
		state, next, err := source.Line(ctx, "order:0")
		must(b, err)
		return len(state.Waiters), next
	}
	p, err := source.Look(ctx)
	must(b, err)
	return p.Totals().Waiting, p.Next
}

// busy returns the share of the time d in which the server works while do runs.
func busy(b *testing.B, rdb *redis.Client, d time.Duration, do func(context.Context)) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	start, before := time.Now(), cpu(b, rdb)
	do(ctx)
	return (cpu(b, rdb) - before).Seconds() / time.Since(start).Seconds()
}

// cpu returns the processor time that the server has used so far.
func cpu(b *testing.B, rdb *redis.Client) (sum time.Duration) {
	b.Helper()
	for line := range strings.Lines(rdb.Info(b.Context(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			d, err := time.ParseDuration(value + "s")
			must(b, err)
			sum += d
		}
	}
	return sum
}

// stillLife starts a server with copies of locks that are held and waited for, under the prefix
// "still", and returns a client.
func stillLife(b *testing.B, held, waiters int) *redis.Client {
	b.Helper()
	s := redistest.Start(b)
	rdb := s.Client(b)
	locker := fairlock.New(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	ctx, cancel := context.WithCancel(b.Context())
	var waiting sync.WaitGroup
	for i := range held {
		name := fmt.Sprintf("order:%d", i)
		_, err := locker.Lock(ctx, name, fairlock.Note("web-3:4242 backup.sh"))
		must(b, err)
		for j := range waiters / held {
			waiting.Go(func() { _, _ = locker.Lock(ctx, name, fairlock.Note(fmt.Sprintf("web-%d:4242 job", j))) })
		}
	}
	for sum := 0; sum < waiters; time.Sleep(100 * time.Millisecond) {
		sum = 0
		for state, err := range locker.List(ctx) {
			must(b, err)
			sum += state.Waiting
		}
	}
	keys, err := rdb.Keys(ctx, "fairlock:*").Result()
	must(b, err)
	for _, key := range keys {
		still := "still" + strings.TrimPrefix(key, "fairlock")
		must(b, rdb.Copy(ctx, key, still, 0, false).Err())
		must(b, rdb.PExpire(ctx, still, time.Hour).Err())
	}
	cancel()
	waiting.Wait()
	_ = locker.Close()
	return rdb
}
