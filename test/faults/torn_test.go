package faults

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// tornFor is for how long a message stops in the middle: longer than any check of the connection
// waits. (Package pubsub shows that a message may be torn at any byte.)
const tornFor = 700 * time.Millisecond

// torn has messages to clients arrive in two parts. Each client listens behind a proxy of its own.
// What act does on the other side must be noticed within the pause and 1.5 s, which is before a
// heartbeat. After asked requests, a client has heard that it is subscribed.
func torn(t *testing.T, kind world.Kind, asked int, stage func(beside, behind conformance.Locker, name string) (act func(), noticed func() bool)) {
	t.Helper()
	const beyond, every = 220, 5 // no message is longer
	world.NoGoroutineLeft(t)
	server := redistest.Start(t)
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	beside := kind(server.Client(t), quiet)
	defer beside.Close()
	var all sync.WaitGroup
	var places atomic.Int64
	for at := 1; at < beyond; at += every {
		proxy := faultproxy.New(t, server.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		behind := kind(rdb, quiet)
		t.Cleanup(func() { _, _ = behind.Close(), rdb.Close() }) // how they end does not matter
		act, noticed := stage(beside, behind, fmt.Sprintf("lock %03d", at))
		world.Until(t, "it listens", func() bool { return proxy.Count(faultproxy.Command("EVALSHA")) >= asked })
		all.Go(func() {
			proxy.Tear(at, tornFor)
			act()
			began := time.Now()
			for !noticed() && time.Since(began) < 10*time.Second {
				time.Sleep(10 * time.Millisecond) // dozens of these look, on a busy machine
			}
			if took := time.Since(began); took > tornFor+1500*time.Millisecond {
				t.Errorf("torn at %d: it took %v", at, took)
			}
			if proxy.Torn() {
				places.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("torn at %d places", places.Load())
	if places.Load() < 10 {
		t.Error("that shows nothing")
	}
}

func TestWhoWaitsHasTheLockWhereverTheMessageOfItIsTorn(t *testing.T) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		torn(t, kind, 2, func(beside, behind conformance.Locker, name string) (func(), func() bool) {
			lease, waits := world.HeldAndWaitedFor(t, beside, behind, name)
			return func() { _ = lease.Unlock(t.Context()) }, func() bool { return len(waits) > 0 }
		})
	})
}

func TestAHolderHearsOfBeingForcedWhereverTheMessageOfItIsTorn(t *testing.T) {
	torn(t, world.Fair, 3, func(beside, behind conformance.Locker, name string) (func(), func() bool) {
		world.HeldAndWaitedFor(t, beside, behind, name+" of another") // so that it listens
		lease, err := behind.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = beside.ForceUnlock(t.Context(), name) }, func() bool { return lease.Context().Err() != nil }
	})
}
