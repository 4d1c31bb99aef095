package pubsub_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// mostClosed is more than a Close may take.
const mostClosed = 15 * time.Second

// closesSoon fails the test unless that Close returns. release ends what it waits for.
func closesSoon(t *testing.T, what string, closes, release func()) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closes()
	}()
	select {
	case <-closed:
	case <-time.After(mostClosed):
		t.Errorf("%s: it does not return", what)
	}
	release()
	<-closed
}

// muteNetwork is one whose connections read and never answer.
type muteNetwork struct {
	dialled chan struct{} // closed when the first connection is made
	once    sync.Once

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (n *muteNetwork) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // until the connection ends
	n.mu.Lock()
	n.conns = append(n.conns, theirs)
	n.mu.Unlock()
	n.once.Do(func() { close(n.dialled) })
	return ours, nil
}

func (n *muteNetwork) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		_ = conn.Close() // it has served
	}
}

// In real time: go-redis keeps a mutex while it connects, and fake time would stand still.
func TestCloseReturnsThoughAGreetingIsNeverAnsweredAndTheClientHasNoTimeouts(t *testing.T) {
	const none = -1
	for name, client := range map[string]func(n *muteNetwork) redis.UniversalClient{
		"bare": func(n *muteNetwork) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Dialer: n.dial, ReadTimeout: none, WriteTimeout: none})
		},
		"wrapped": func(n *muteNetwork) redis.UniversalClient {
			return struct{ *redis.Client }{redis.NewClient(&redis.Options{Dialer: n.dial, ReadTimeout: none, WriteTimeout: none})}
		},
		"of a sentinel": func(n *muteNetwork) redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: "m", SentinelAddrs: []string{"127.0.0.1:0"}, Dialer: n.dial, ReadTimeout: none, WriteTimeout: none,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &muteNetwork{dialled: make(chan struct{})}
			rdb := client(n)
			defer rdb.Close()
			hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
			hub.Listen("a", &pubsub.Listener{Up: func() {}})
			<-n.dialled
			closesSoon(t, name, hub.Close, n.cut)
		})
	}
}

func TestCloseReturnsThoughANodeThatIsAskedForTheMapOfTheSlotsHangs(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: pipes.New(t).Dial})
		defer rdb.Close()
		nodes := hanging{rdb, make(chan struct{}, 1), make(chan struct{})}
		hub := pubsub.NewCluster(nodes, slog.New(slog.DiscardHandler))
		hub.Remake("a")
		hub.Listen("a", &pubsub.Listener{Up: func() {}})
		<-nodes.come
		closesSoon(t, "of a cluster", hub.Close, func() { close(nodes.hang) })
	})
}
