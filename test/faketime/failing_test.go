package faketime

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/written"
)

// isReplica refuses scripts.
func isReplica(c *server.Peer, cmd string, _ ...string) bool {
	refuses := strings.HasPrefix(cmd, "EVAL")
	if refuses {
		c.WriteError("READONLY You can't write against a read only replica.")
	}
	return refuses
}

// As behind a Sentinel that takes a replica for the master: it answers all but scripts.
func TestWaitersWhoseRequestsAreRefusedForLongAreLoggedOnceAMinute(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		var seen written.Text
		l, _ := s.client(fairlock.WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
		s.logsRefusals(l, &seen)
	})
	for kind, newLocker := range map[string]func(redis.UniversalClient, ...redisson.Option) *redisson.Locker{
		"Redisson's": redisson.New, "Redisson's plain": redisson.NewPlain,
	} {
		t.Run(kind, func(t *testing.T) {
			inFakeTime(t, func(b *bubble) {
				var seen written.Text
				l, _ := onNetwork(b, b.mini, func(rdb redis.UniversalClient, _ ...fairlock.Option) *redisson.Locker {
					return newLocker(rdb, redisson.WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
				})
				b.logsRefusals(l, &seen)
			})
		})
	}
}

func (b *bubble) logsRefusals(l fairlock.Interface, seen *written.Text) {
	b.Helper()
	lines := func() int { return strings.Count(seen.String(), "requests for a lock fail") }
	lease, err := l.Lock(b.Context(), "x", fairlock.LeaseFor(10*time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = l.Lock(ctx, "x") })
	}
	time.Sleep(time.Second)
	for range 2 {
		b.mini.Server().SetPreHook(isReplica)
		time.Sleep(9 * time.Second)
		b.mini.Server().SetPreHook(nil)
		time.Sleep(10 * time.Second)
	}
	b.mini.Server().SetPreHook(isReplica)
	time.Sleep(9 * time.Second)
	if n := lines(); n != 0 {
		b.Errorf("%d lines though no outage took 10 s: %s", n, seen.String())
	}
	time.Sleep(20 * time.Second)
	if n := lines(); n != 1 || !strings.Contains(seen.String(), "lock=x") || !strings.Contains(seen.String(), "READONLY") {
		b.Errorf("%d lines: %s", n, seen.String())
	}
	time.Sleep(time.Minute)
	if n := lines(); n != 2 {
		b.Errorf("%d lines a minute later: %s", n, seen.String())
	}
	b.mini.Server().SetPreHook(nil)
	cancel()
	all.Wait()
	if err := lease.Unlock(b.Context()); err != nil {
		b.Error(err)
	}
}

// As of a server that is full: it keeps places, and gives nobody the lock.
func TestAWaiterInRedissonsLineWhoseRequestsAreRefusedIsLoggedThoughItsPlaceIsKept(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		var seen written.Text
		l, _ := onNetwork(b, b.mini, func(rdb redis.UniversalClient, _ ...fairlock.Option) *redisson.Locker {
			return redisson.New(rdb, redisson.WithLogger(slog.New(slog.NewTextHandler(&seen, nil))))
		})
		if _, err := l.Lock(b.Context(), "x", fairlock.LeaseFor(time.Second)); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = l.Lock(ctx, "x") })
		time.Sleep(100 * time.Millisecond)
		b.mini.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
			asks := strings.HasPrefix(cmd, "EVAL") && args[1] == "4" // keys
			if asks {
				c.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
			}
			return asks
		})
		time.Sleep(20 * time.Second)
		if n := strings.Count(seen.String(), "requests for a lock fail"); n != 1 {
			b.Errorf("%d lines: %s", n, seen.String())
		}
		b.mini.Server().SetPreHook(nil)
		cancel()
		all.Wait()
	})
}
