package faultproxy

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestASwallowedReplyIsExecutedAndTheClientSeesOnlyTheEnd(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		c := connect(t, p.Addr())
		lost := p.Add(Rule{Match: CommandWith("INCR", "n"), Times: 1, Action: SwallowReply()})
		if err := c.Incr(ctx, "n").Err(); !isDisconnect(err) {
			t.Fatalf("the client saw %v", err)
		}
		lost.WaitExecuted(t, 1, patience)
		if got := direct.Get(ctx, "n").Val(); got != "1" {
			t.Fatalf("n = %q", got)
		}
		if got := c.Incr(ctx, "n").Val(); got != 2 {
			t.Fatalf("the next request, on a new connection, got %d", got)
		}
	})
}

// This pins why a library cannot leave retries to go-redis: with its default
// options a request whose reply was lost is executed twice, silently.
func TestGoRedisRepeatsARequestWhoseReplyWasLost(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		c := connect(t, p.Addr(), func(o *redis.Options) { o.MaxRetries = 0 }) // 0 is the default: 3
		p.Add(Rule{Match: Command("INCR"), Times: 1, Action: SwallowReply()})
		if got, err := c.Incr(ctx, "n").Result(); got != 2 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		if got := p.Count(Command("INCR")); got != 2 {
			t.Fatalf("sent %d times", got)
		}
	})
}

func TestAReplySwallowedInAPipelineEndsItThere(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		lost := p.Add(Rule{Match: CommandWith("ECHO", "b"), Action: SwallowReply()})
		w := dialWire(t, p.Addr())
		_, err := w.conn.Write(bytes.Join([][]byte{
			encode("ECHO", "a"), encode("ECHO", "b"), encode("ECHO", "c"),
		}, nil))
		must(t, err)
		w.wants("$1\r\na\r\n")
		w.wantsEnd()
		lost.WaitExecuted(t, 1, patience)
	})
}

func TestASilentlySwallowedReplyLeavesTheConnectionOpenAndMute(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		lost := p.Add(Rule{Match: CommandWith("INCR", "n"), Action: SwallowReplySilently()})
		w := dialWire(t, p.Addr())
		w.send("INCR", "n")
		lost.WaitExecuted(t, 1, patience)
		w.wantsSilence()
		w.send("SET", "later", "1")
		eventually(t, "the next request is executed", func() bool { return direct.Get(ctx, "later").Val() == "1" })
		w.wantsSilence()
		if got := p.Connections(); got != 1 {
			t.Fatalf("%d connections", got)
		}
		other := dialWire(t, p.Addr())
		other.send("GET", "n")
		other.wants("$1\r\n1\r\n")
	})
}

func TestASilentlySwallowedReplyIsCountedThoughTheClientLeavesFirst(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		lost := p.Add(Rule{Match: Command("INCR"), Action: SwallowReplySilently()})
		for n := range 20 {
			w := dialWire(t, p.Addr())
			w.send("INCR", "n")
			must(t, w.conn.Close())
			lost.WaitExecuted(t, n+1, patience)
		}
	})
}

func TestADelayedReplyIsExecutedAtOnceAndToldLater(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		const delay = 3 * time.Second
		p := New(t, addr)
		late := p.Add(Rule{Match: CommandWith("ECHO", "late"), Action: DelayReply(delay)})
		w := dialWire(t, p.Addr())
		begin := time.Now()
		w.send("ECHO", "late")
		w.send("ECHO", "behind")
		late.WaitExecuted(t, 1, patience)
		w.wantsSilence()
		w.wants("$4\r\nlate\r\n")
		if took := time.Since(begin); took < delay {
			t.Fatalf("told after %v", took)
		}
		w.wants("$6\r\nbehind\r\n")
	})
}

func TestARewrittenReplyIsWhatTheClientGets(t *testing.T) {
	for _, version := range []int{2, 3} {
		onEveryServer(t, func(t *testing.T, addr string) {
			p := New(t, addr)
			c := connect(t, p.Addr(), resp(version))
			var original string
			p.Add(Rule{Match: Command("EVALSHA", "EVAL"), Times: 1, Action: RewriteReply(func(reply []byte) []byte {
				original = string(reply)
				return []byte("-LOADING not yet\r\n")
			})})
			err := c.Eval(ctx, "return {1, 'a'}", nil).Err()
			if fmt.Sprint(err) != "LOADING not yet" || original != "*2\r\n:1\r\n$1\r\na\r\n" {
				t.Fatalf("%v instead of %q", err, original)
			}
			must(t, c.Ping(ctx).Err())
		})
	}
}

func TestTheConfirmationOfASubscriptionCanBeLost(t *testing.T) {
	for _, version := range []int{2, 3} {
		onEveryServer(t, func(t *testing.T, addr string) {
			p := New(t, addr)
			c := connect(t, p.Addr(), resp(version))
			lost := p.Add(Rule{Match: Command("SUBSCRIBE"), Times: 1, Action: SwallowReply()})
			sub := c.Subscribe(ctx, "channel")
			defer sub.Close()
			if msg, err := sub.Receive(ctx); !isDisconnect(err) {
				t.Fatalf("the subscriber saw %v, %v", msg, err)
			}
			lost.WaitExecuted(t, 1, patience)
		})
	}
}
