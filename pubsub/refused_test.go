package pubsub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
)

// only is a cluster of one node.
type only struct{ node *redis.Client }

func (o only) MasterForKey(context.Context, string) (*redis.Client, error) { return o.node, nil }

func (o only) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	return nil
}

// secret refuses a user the channel of that name, as an ACL does.
func secret(words []string) string {
	if strings.HasSuffix(words[0], "subscribe") && !strings.Contains(words[0], "un") && slices.Contains(words[1:], "secret") {
		return "NOPERM No permissions to access a channel"
	}
	return ""
}

// serve answers one connection as a server that knows subscriptions and pings. It refuses a command
// if refuses returns an error for it.
func serve(conn net.Conn, refuses func(words []string) string) {
	answers := make(chan string, 100) // a client may send all it has before it reads
	go func() {
		defer conn.Close()
		for answer := range answers {
			_, _ = io.WriteString(conn, answer) // the client may be gone
		}
	}()
	defer close(answers)
	in := bufio.NewReader(conn)
	for {
		var parts int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &parts); err != nil {
			return
		}
		words := make([]string, parts)
		for i := range words {
			var length int
			if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
				return
			}
			word := make([]byte, length+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			words[i] = string(word[:length])
		}
		answer := "-ERR unknown command\r\n"
		switch why := refuses(words); {
		case why != "":
			answer = "-" + why + "\r\n"
		case words[0] == "ping":
			answer = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		case strings.HasSuffix(words[0], "subscribe"):
			answer = ""
			for _, channel := range words[1:] {
				answer += fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n", len(words[0]), words[0], len(channel), channel)
			}
		}
		answers <- answer
	}
}

// served is a client of what serve serves. It counts the connections.
func served(dials *atomic.Int64, refuses func(words []string) string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Protocol: 2, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		ours, theirs := net.Pipe()
		go serve(theirs, refuses)
		return ours, nil
	}})
}

func TestANodeThatRefusesOneOfTheChannelsIsAskedAgainLessAndLessOften(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		node := served(&dials, secret)
		defer node.Close()
		hub := pubsub.NewCluster(only{node}, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var may, mayNot recorder
		hub.Listen("open", may.listener())
		time.Sleep(time.Second)
		if ups, _ := may.heard(); ups != 1 || dials.Load() != 1 {
			t.Fatalf("it was up %d times; %d connections", ups, dials.Load())
		}
		hub.Listen("secret", mayNot.listener())
		time.Sleep(2 * time.Second)
		if n := dials.Load(); n < 3 || n > 11 {
			t.Errorf("%d connections in 2 s", n-1)
		}
		if ups, _ := mayNot.heard(); ups > 0 {
			t.Errorf("the refused one was up %d times", ups)
		}
		if ups, _ := may.heard(); ups < 2 {
			t.Errorf("the other was up %d times", ups)
		}
	})
}

// The server refuses a command for several channels as a whole.
func TestAChannelThatAServerRefusesKeepsNoOtherFromBeingHeard(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		var dials, asked, together atomic.Int64
		var may atomic.Bool
		server := served(&dials, func(words []string) string {
			if words[0] == "subscribe" && len(words) > 2 {
				together.Add(1)
			}
			if may.Load() || secret(words) == "" {
				return ""
			}
			asked.Add(1)
			return secret(words)
		})
		defer server.Close()
		var log journal
		hub := pubsub.New(server, slog.New(slog.NewTextHandler(&log, nil)))
		defer hub.Close()
		var open, other, hidden recorder
		hub.Listen("open", open.listener())
		hub.Listen("secret", hidden.listener())
		hub.Listen("other", other.listener())
		ups := func() (a, b, c int) {
			a, _ = open.heard()
			b, _ = other.heard()
			c, _ = hidden.heard()
			return a, b, c
		}
		time.Sleep(time.Second)
		a, b, c := ups()
		if a == 0 || b == 0 || c > 0 {
			t.Fatalf("they were up %d and %d times, and the refused one %d times", a, b, c)
		}
		time.Sleep(20 * time.Second)
		if now, too, _ := ups(); now != a || too != b {
			t.Errorf("they were up %d and %d times more", now-a, too-b)
		}
		if lost, refused := log.lines("lost"), log.lines("a subscription is refused", "to secret: NOPERM"); len(lost) != 1 || len(refused) != 1 || len(log.lines("is back")) != 1 {
			t.Errorf("the log:\n%s", log.String())
		}
		if n := asked.Load(); n < 20 || n > 44 {
			t.Errorf("it asked %d times in 21 s", n)
		}
		may.Store(true)
		time.Sleep(time.Second)
		if _, _, c := ups(); c != 1 {
			t.Errorf("once it was allowed, it was up %d times", c)
		}
		if n := dials.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
		before := together.Load()
		hub.Remake("open")
		time.Sleep(time.Second)
		if now, too, c := ups(); now != a+1 || too != b+1 || c != 2 {
			t.Errorf("on a new connection they were up %d, %d and %d times", now-a, too-b, c-1)
		}
		if n := together.Load() - before; n != 1 {
			t.Errorf("%d commands are for several channels", n)
		}
	})
}

func TestThatAllChannelsAreRefusedIsLoggedOnceAMinute(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		server := served(new(atomic.Int64), secret)
		defer server.Close()
		var log journal
		hub := pubsub.New(server, slog.New(slog.NewTextHandler(&log, nil)))
		defer hub.Close()
		hub.Listen("secret", new(recorder).listener())
		time.Sleep(150 * time.Second)
		if n := len(log.lines("a subscription is refused", "to secret: NOPERM")); n != 3 || len(log.lines("subscription lost")) != 1 || len(log.lines("")) != 4 {
			t.Errorf("the log:\n%s", log.String())
		}
	})
}

// hubs runs the test with a Hub and with a Cluster, which speak to what serve serves.
func hubs(t *testing.T, refuses func(words []string) string, test func(t *testing.T, listen func(*recorder))) {
	t.Helper()
	for what, sharded := range map[string]bool{"a server": false, "a node": true} {
		t.Run(what, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				rdb, log := served(&dials, refuses), slog.New(slog.DiscardHandler)
				defer rdb.Close()
				hub, cluster := pubsub.New(rdb, log), pubsub.NewCluster(only{rdb}, log)
				defer hub.Close()
				defer cluster.Close()
				test(t, func(e *recorder) {
					if sharded {
						cluster.Listen("a", e.listener())
					} else {
						hub.Listen("a", e.listener())
					}
				})
				if n := dials.Load(); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// As a server does that cannot save its data.
func TestAServerThatRefusesPingsForNowMakesNoSubscriptionSeemToHaveAGap(t *testing.T) {
	refuses := func(words []string) string {
		if words[0] == "ping" {
			return "MISCONF Errors writing to the AOF file"
		}
		return ""
	}
	hubs(t, refuses, func(t *testing.T, listen func(*recorder)) {
		var e recorder
		listen(&e)
		time.Sleep(time.Minute)
		if ups, _ := e.heard(); ups != 1 {
			t.Errorf("it was up %d times", ups)
		}
	})
}

func TestALaterListenerIsUpThoughTheServerRefusedItsSubscriptionForAWhile(t *testing.T) {
	var busy atomic.Bool
	refuses := func([]string) string {
		if busy.Load() {
			return "BUSY Redis is busy running a script"
		}
		return ""
	}
	hubs(t, refuses, func(t *testing.T, listen func(*recorder)) {
		busy.Store(false)
		var first, second recorder
		listen(&first)
		time.Sleep(time.Second)
		busy.Store(true)
		listen(&second)
		time.Sleep(10 * time.Second)
		if ups, _ := second.heard(); ups != 0 {
			t.Errorf("it was up %d times before the server could tell", ups)
		}
		busy.Store(false)
		time.Sleep(time.Second)
		if ups, _ := second.heard(); ups != 1 {
			t.Errorf("it was up %d times", ups)
		}
	})
}
