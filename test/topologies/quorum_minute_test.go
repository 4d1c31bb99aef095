package topologies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/redistest"
)

// longAway is longer than anything that refuses late requests.
const longAway = 61 * time.Second

// A node that was stopped executes what it was sent before: for calls that have ended, of Lockers
// that are closed, after every mark against that has expired.
func TestANodeThatGoesOnAfterAMinuteTakesTheLockFromNobodyAndKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	stays, goes := lockerOn(t, servers), lockerOn(t, servers)
	if err := stays.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	takesATurn(t, stays)
	takesATurn(t, goes)
	servers[2].Pause()
	var all sync.WaitGroup
	for i := range 32 {
		l := []*quorum.Locker{stays, goes}[i%2]
		all.Go(func() { takesATurn(t, l) })
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			defer cancel()
			lease, err := l.Lock(ctx, "x")
			if err == nil {
				err = lease.Unlock(context.Background())
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := goes.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*longAway)
	defer cancel()
	held, err := stays.Lock(ctx, "x") // and it is held all the time
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(longAway)
	servers[2].Resume()
	until(ctx, t, "the node gives its vote to the holder", func() bool {
		r := servers[2].Client(t).HGetAll(ctx, "quorum:lock:{x}").Val()
		return r["decided"] == "1" && r["token"] == fmt.Sprint(held.Token())
	})
	if held.Err() != nil {
		t.Error(held.Err())
	}
	if _, err := stays.TryLock(ctx, "x"); !errors.Is(err, quorum.ErrHeld) {
		t.Error(err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Error(err)
	}
	began := time.Now()
	takesATurn(t, lockerOn(t, servers))
	t.Logf("the next one had it after %v", time.Since(began))
	for _, s := range servers {
		rdb := s.Client(t)
		until(ctx, t, "nothing is left in line", func() bool {
			return rdb.Exists(ctx, "quorum:lock:{x}", "quorum:queue:{x}").Val() == 0
		})
	}
}

// lockerOn returns a Locker with clients of its own.
func lockerOn(t *testing.T, servers []*redistest.Server) *quorum.Locker {
	t.Helper()
	var nodes []redis.UniversalClient
	for _, s := range servers {
		nodes = append(nodes, s.Client(t))
	}
	l := quorum.New(nodes)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// takesATurn has the lock for an instant.
func takesATurn(t *testing.T, l *quorum.Locker) {
	t.Helper()
	lease, err := l.Lock(t.Context(), "x")
	if err == nil {
		err = lease.Unlock(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
}

// until waits for a condition.
func until(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
