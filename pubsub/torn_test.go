package pubsub_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// pauseInside is longer than lookEvery, so that the hub looks at the connection in the middle of a
// message.
const pauseInside = 700 * time.Millisecond

// atEachByte runs the test once for each place where a message of this length can be torn, each
// time behind a proxy of its own, all at once.
func atEachByte(
	t *testing.T, length int,
	test func(t *testing.T, at int, server *redistest.Server, p *faultproxy.Proxy, rdb *redis.Client),
) {
	t.Helper()
	server := redistest.Start(t)
	var all sync.WaitGroup
	for at := 1; at < length; at++ {
		p := faultproxy.New(t, server.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
		t.Cleanup(func() { _ = rdb.Close() }) // it has served
		all.Go(func() { t.Run(fmt.Sprint("torn at ", at), func(t *testing.T) { test(t, at, server, p, rdb) }) })
	}
	all.Wait()
}

func frame(parts ...string) (text string) {
	text = fmt.Sprintf("*%d\r\n", len(parts))
	for _, part := range parts {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(part), part)
	}
	return text
}

func TestAMessageIsHeardWhereverItIsTorn(t *testing.T) {
	atEachByte(t, len(frame("message", "channel 01", "a payload")), func(t *testing.T, at int, server *redistest.Server, p *faultproxy.Proxy, rdb *redis.Client) {
		hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var e recorder
		channel := fmt.Sprintf("channel %02d", at)
		hub.Listen(channel, e.listener())
		until(t, "it is up", func() bool { ups, _ := e.heard(); return ups == 1 })
		p.Tear(at, pauseInside)
		if err := server.Client(t).Publish(t.Context(), channel, "a payload").Err(); err != nil {
			t.Error(err)
		}
		until(t, "it is heard", func() bool { _, messages := e.heard(); return len(messages) > 0 })
		if ups, _ := e.heard(); ups != 1 || !p.Torn() {
			t.Errorf("the subscription was made %d times; torn: %v", ups, p.Torn())
		}
	})
}

func TestASubscriptionIsUpWhereverItsConfirmationIsTorn(t *testing.T) {
	length := len("*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n")
	atEachByte(t, length, func(t *testing.T, at int, server *redistest.Server, p *faultproxy.Proxy, rdb *redis.Client) {
		p.Tear(at, pauseInside)
		hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var e recorder
		hub.Listen("channel", e.listener())
		until(t, "it is up", func() bool { ups, _ := e.heard(); return ups > 0 })
		if connections := p.Count(faultproxy.Command("SUBSCRIBE")); connections != 1 || !p.Torn() {
			t.Errorf("subscribed %d times; torn: %v", connections, p.Torn())
		}
	})
}
