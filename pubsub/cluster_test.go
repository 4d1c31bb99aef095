package pubsub_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/redistest"
)

// say publishes on a sharded channel until the listener hears the text.
func say(t *testing.T, rdb *redis.ClusterClient, channel, text string, e *recorder) {
	t.Helper()
	until(t, text+" is heard", func() bool {
		if err := rdb.SPublish(context.Background(), channel, text).Err(); err != nil {
			return false // the client has yet to find the new master
		}
		_, messages := e.heard()
		return len(messages) > 0 && messages[len(messages)-1] == text
	})
}

func TestShardedChannelsFollowTheirSlotsAndShareOneConnectionToEachMaster(t *testing.T) {
	c := redistest.StartNodes(t, 3, 5*time.Second)
	rdb := c.Client(t)
	hub := pubsub.NewCluster(rdb, slog.New(slog.DiscardHandler))
	defer hub.Close()
	const channels = 60
	recorders, forget := make([]recorder, channels), make([]func(), channels)
	name := func(i int) string { return fmt.Sprintf("c:{%d}", i) }
	for i := range recorders {
		forget[i] = hub.Listen(name(i), recorders[i].listener())
	}
	for i := range recorders {
		say(t, rdb, name(i), "hello "+name(i), &recorders[i])
	}
	subscribed := func() (n int) {
		for _, node := range c.Masters() {
			admin := node.Client(t)
			n += len(admin.PubSubShardChannels(context.Background(), "*").Val())
			_ = admin.Close() // it has answered
		}
		return n
	}
	until(t, "each channel is subscribed to once", func() bool { return subscribed() == channels })

	before, _ := recorders[0].heard()
	from := c.MasterOf(name(0))
	for _, to := range c.Masters() {
		if to != from {
			c.Move(c.Slot(name(0)), to)
			break
		}
	}
	until(t, "it is up again where the slot is now", func() bool { ups, _ := recorders[0].heard(); return ups > before })
	say(t, rdb, name(0), "moved", &recorders[0])

	dead, _ := c.Failover(name(1))
	for i := range recorders {
		say(t, rdb, name(i), "after "+dead.Addr(), &recorders[i])
	}
	for i := range recorders {
		forget[i]()
	}
	until(t, "nothing is subscribed to", func() bool { return subscribed() == 0 })
}

// hanging is a cluster of one node where a request for the map of the slots hangs.
type hanging struct {
	node *redis.Client
	come chan struct{}
	hang chan struct{}
}

func (h hanging) MasterForKey(context.Context, string) (*redis.Client, error) { return h.node, nil }

func (h hanging) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	h.come <- struct{}{}
	<-h.hang
	return nil
}

func TestChannelsArePlacedWhileTheNodeThatIsAskedWhereOthersWentHangs(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	nodes := hanging{rdb, make(chan struct{}, 1), make(chan struct{})}
	hub := pubsub.NewCluster(nodes, slog.New(slog.DiscardHandler))
	defer hub.Close()
	goOn := sync.OnceFunc(func() { close(nodes.hang) })
	defer goOn()
	var first, then recorder
	hub.Listen("a", first.listener())
	until(t, "it is up", func() bool { ups, _ := first.heard(); return ups == 1 })
	hub.Remake("a")
	<-nodes.come
	hub.Listen("b", then.listener())
	until(t, "the next is up", func() bool { ups, _ := then.heard(); return ups == 1 })
	goOn()
	until(t, "the first is up again", func() bool { ups, _ := first.heard(); return ups == 2 })
}

// The channel's own node lives.
func TestANodeThatNeverTellsWhereChannelsWentKeepsNoneOfThemFromItsPlace(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		node := served(new(atomic.Int64), secret)
		defer node.Close()
		nodes := hanging{node, make(chan struct{}, 9), make(chan struct{})}
		defer close(nodes.hang)
		hub := pubsub.NewCluster(nodes, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var e recorder
		hub.Listen("a", e.listener())
		time.Sleep(time.Second)
		for n := range 3 {
			if ups, _ := e.heard(); ups != n+1 {
				t.Fatalf("it was up %d times, want %d", ups, n+1)
			}
			hub.Remake("a")
			time.Sleep(10 * time.Second)
		}
		if n := len(nodes.come); n != 1 {
			t.Errorf("the node was asked %d times at once", n)
		}
	})
}

// A Locker ends a subscription under its mutex.
func TestTheEndOfASubscriptionCostsNoMoreBesideManyOthers(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		mute := &muteNetwork{dialled: make(chan struct{})}
		node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: mute.dial}) // never dialled
		defer node.Close()
		hub := pubsub.NewCluster(only{node}, slog.New(slog.DiscardHandler))
		defer hub.Close()
		const others, ends = 1000, 100
		var e recorder
		for i := range others {
			hub.Listen(fmt.Sprint(i), e.listener())
		}
		time.Sleep(time.Second) // they are placed
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range ends {
			hub.Listen("a", e.listener())()
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / ends; each > others*8 {
			t.Errorf("%d bytes for each", each)
		}
	})
}
