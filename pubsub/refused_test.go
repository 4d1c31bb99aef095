package pubsub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
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

// serveShards answers one connection as a node that refuses a user the channel "secret", as an ACL
// does.
func serveShards(conn net.Conn) {
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
		switch {
		case words[0] == "ping":
			answer = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		case words[0] == "ssubscribe" && words[1] == "secret":
			answer = "-NOPERM No permissions to access a channel\r\n"
		case words[0] == "ssubscribe":
			answer = fmt.Sprintf("*3\r\n$10\r\nssubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
		}
		answers <- answer
	}
}

// shards is a client of a node that serveShards serves. It counts the connections.
func shards(dials *atomic.Int64) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Protocol: 2, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		ours, theirs := net.Pipe()
		go serveShards(theirs)
		return ours, nil
	}})
}

func TestANodeThatRefusesOneOfTheChannelsIsAskedAgainLessAndLessOften(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		node := shards(&dials)
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
