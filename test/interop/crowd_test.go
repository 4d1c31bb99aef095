package interop

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/java"
)

// crowded is how long the crowd hammers: FAIRLOCK_INTEROP_FOR, or 8 s, for it leaves other tests
// no processor.
func crowded(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("FAIRLOCK_INTEROP_FOR")
	if text == "" {
		return 8 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Half of the 64 are threads of two JVMs, one of each version; half are calls of two Lockers. Each
// counts itself in and out, on the server, while it has the lock.
func Test64WaitersHalfInGoAndHalfInJavaNeverOverlapAndAreServedInTurn(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			until := crowded(t) / time.Duration(len(kinds))
			var hammers []*java.Call
			for _, version := range []string{java.V3, java.V4} {
				j := w.jvm(java.Config{Version: version, Idle: 16})
				hammers = append(hammers, j.Thread("all").Hammer(java.Hammer{
					Kind: kind, Name: "x", Threads: 16, For: until, Counter: "inside",
				}))
			}
			inGo, overlaps := w.hammer(kind, until)
			inJava := 0
			// A Java waiter that misses its message waits for the deadlines of all before it: 5 s each.
			ctx, cancel := context.WithTimeout(t.Context(), patience+32*5*time.Second)
			defer cancel()
			for _, hammer := range hammers {
				h, err := hammer.Hammered(ctx)
				w.must(err)
				overlaps += h.Overlaps
				inJava += h.Granted
				if h.Failures > 0 {
					t.Errorf("%d calls failed in Java: %s", h.Failures, h.Failure)
				}
			}
			t.Logf("%d turns in Go, %d in Java", inGo, inJava)
			if overlaps > 0 || inGo == 0 || inJava == 0 {
				t.Errorf("%d overlaps in %d turns in Go and %d in Java", overlaps, inGo, inJava)
			}
			w.must(w.direct.Del(w.Context(), "inside").Err())
			w.nothing()
		})
	}
}

// hammer is what 32 goroutines of two Lockers do for that long.
func (w *world) hammer(kind java.Kind, d time.Duration) (turns, overlaps int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	var granted, twice atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		l := w.locker(kind)
		for range 16 {
			all.Go(func() {
				for ctx.Err() == nil {
					err := l.Do(ctx, "x", func(context.Context, *redisson.Lease) error {
						granted.Add(1)
						return alone(w.direct, &twice)
					})
					if err != nil && ctx.Err() == nil {
						w.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	return int(granted.Load()), int(twice.Load())
}

// alone counts the holder in and out.
func alone(rdb *redis.Client, twice *atomic.Int64) error {
	ctx := context.Background()
	n, err := rdb.Incr(ctx, "inside").Result()
	if err != nil {
		return err
	}
	if n != 1 {
		twice.Add(1)
		err = fmt.Errorf("%d are inside", n)
	}
	if e := rdb.Decr(ctx, "inside").Err(); e != nil {
		return e
	}
	return err
}
