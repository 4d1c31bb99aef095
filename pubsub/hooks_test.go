package pubsub_test

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/redistest"
)

// ending is a hook that ends the goroutine of the next dial, or of the next look, as t.FailNow
// does.
type ending struct{ dial, look atomic.Bool }

func (e *ending) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if e.dial.CompareAndSwap(true, false) {
			runtime.Goexit()
		}
		return next(ctx, network, addr)
	}
}

func (e *ending) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "pubsub" && e.look.CompareAndSwap(true, false) {
			runtime.Goexit()
		}
		return next(ctx, cmd)
	}
}

func (e *ending) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// kill has the server end all subscription connections.
func kill(t *testing.T, server *redistest.Server) {
	t.Helper()
	if err := server.Client(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestASubscriptionIsMadeAgainThoughAHookEndsTheGoroutineThatDials(t *testing.T) {
	server := redistest.Start(t)
	hook, rdb := new(ending), server.Client(t)
	rdb.AddHook(hook)
	hook.dial.Store(true)
	var e recorder
	newHub(t, rdb).Listen("a", e.listener())
	for n := range 3 { // from the second on go-redis dials by itself as it reads, under a mutex
		until(t, "it is up", func() bool { ups, _ := e.heard(); return ups == n+1 })
		if hook.dial.Load() {
			t.Fatal("nobody dialled")
		}
		hook.dial.Store(true)
		kill(t, server)
	}
	until(t, "it is up", func() bool { ups, _ := e.heard(); return ups == 4 })
	if err := rdb.Publish(t.Context(), "a", "x").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "it hears", func() bool { _, messages := e.heard(); return len(messages) == 1 })
}

func TestOverhearEndsOrGoesOnThoughAHookEndsTheGoroutineThatDials(t *testing.T) {
	server := redistest.Start(t)
	hook, rdb := new(ending), server.Client(t)
	rdb.AddHook(hook)
	hub := newHub(t, rdb)
	hook.dial.Store(true)
	for _, err := range hub.Overhear(t.Context(), "*") {
		if err == nil {
			t.Error("it began")
		}
		break
	}
	began := 0
	for _, err := range hub.Overhear(t.Context(), "*") {
		if err != nil {
			t.Fatal(err)
		}
		if began++; began == 3 {
			break
		}
		hook.dial.Store(true)
		kill(t, server)
	}
	if began != 3 {
		t.Errorf("it began %d times", began)
	}
}

func TestTheLookoutGoesOnThoughAHookEndsTheGoroutineOfALook(t *testing.T) {
	hook := new(ending)
	followed(t, func(rdb *redis.Client, server *redistest.Server) {
		rdb.AddHook(hook)
		hook.look.Store(true)
		dropConnections(t, rdb, server)
		until(t, "it has looked", func() bool { return !hook.look.Load() })
	})
}

// cutting is a cluster of one node where the goroutines of so many questions about the map of the
// slots end.
type cutting struct {
	only
	left *atomic.Int64
}

func (c cutting) cut() {
	if c.left.Add(-1) >= 0 {
		runtime.Goexit()
	}
}

func (c cutting) MasterForKey(ctx context.Context, key string) (*redis.Client, error) {
	c.cut()
	return c.only.MasterForKey(ctx, key)
}

func (c cutting) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	c.cut()
	return c.only.ForEachMaster(ctx, f)
}

func TestChannelsArePlacedThoughAHookEndsTheGoroutinesThatAskForTheMapOfTheSlots(t *testing.T) {
	nodes := cutting{only{redistest.Start(t).Client(t)}, new(atomic.Int64)}
	nodes.left.Store(3)
	hub := pubsub.NewCluster(nodes, slog.New(slog.DiscardHandler))
	defer hub.Close()
	var e recorder
	hub.Listen("a", e.listener())
	until(t, "it is up", func() bool { ups, _ := e.heard(); return ups > 0 })
}
