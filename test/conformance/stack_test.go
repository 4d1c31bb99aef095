package conformance_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/race"
	"github.com/fairlock/locks/test/world"
)

// queued counts the calls that have to wait.
type queued struct{ atomic.Int64 }

func (q *queued) Observe(e fairlock.Event) {
	if e.Kind == fairlock.Queued {
		q.Add(1)
	}
}

// A waiting call's goroutine keeps its stack. Go doubles a stack that is too small, and copies it:
// that was half of what a crowd of calls cost its client.
func TestAWaitingCallNeedsAStackOfFourKilobytes(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes frames larger")
	}
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		defer client.Close()
		wait := new(queued)
		l := kind(client, fairlock.WithObserver(wait))
		defer l.Close()
		holder, err := l.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		const calls = 2000
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		before := stacks()
		for range calls {
			all.Go(func() { _, _ = l.Lock(ctx, "x", fairlock.WaitAtMost(time.Hour)) })
		}
		world.Until(t, "they wait", func() bool { return wait.Load() == calls })
		each := (stacks() - before) / calls
		cancel()
		all.Wait()
		_ = holder.Unlock(t.Context()) // the rest is of no interest here
		if each > 5<<10 {
			t.Errorf("a waiting call has a stack of %d bytes", each)
		}
	})
}

// stacks is how many bytes all stacks take.
func stacks() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse) //nolint:gosec // far below
}
