package pubsub_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

func TestAGreetingThatIsNeverAnsweredKeepsNoHubFromBeingUpThoughItsClientHasNoTimeouts(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		mini, first := pipes.New(t), true
		mute := &muteNetwork{dialled: make(chan struct{})}
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:0", ReadTimeout: -1, WriteTimeout: -1, // never dialled
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if first {
					first = false
					return mute.dial(ctx, network, addr)
				}
				return mini.Dial(ctx, network, addr)
			},
		})
		defer rdb.Close()
		hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
		defer hub.Close()
		up := make(chan struct{})
		hub.Listen("a", &pubsub.Listener{Up: func() { close(up) }})
		select {
		case <-up:
		case <-time.After(time.Minute):
			t.Error("it waits for the greeting")
			mute.cut()
		}
	})
}
