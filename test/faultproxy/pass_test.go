package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

func TestWithoutARuleAClientDoesNotNoticeTheProxy(t *testing.T) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			onEveryServer(t, func(t *testing.T, addr string) {
				c := connect(t, New(t, addr).Addr(), resp(version))
				commandsPass(t, c)
				pipelinesPass(t, c)
				scriptsPass(t, c)
				messagesPass(t, c)
				blockingPops(t, c)
			})
		})
	}
}

func commandsPass(t *testing.T, c *redis.Client) {
	t.Helper()
	big := strings.Repeat("x\r\n", 1<<20)
	must(t, c.Set(ctx, "big", big, 0).Err())
	if c.Get(ctx, "big").Val() != big {
		t.Error("a big value came back changed")
	}
	must(t, c.HSet(ctx, "hash", "field", "value").Err())
	if got := c.HGetAll(ctx, "hash").Val(); got["field"] != "value" {
		t.Errorf("a hash came back as %v", got)
	}
	if err := c.Get(ctx, "missing").Err(); err != redis.Nil {
		t.Errorf("a missing key: %v", err)
	}
}

func pipelinesPass(t *testing.T, c *redis.Client) {
	t.Helper()
	increase := func(p redis.Pipeliner) error {
		for range 1000 {
			p.Incr(ctx, "n")
		}
		return nil
	}
	for i, pipelined := range []func(func(redis.Pipeliner) error) ([]redis.Cmder, error){
		func(f func(redis.Pipeliner) error) ([]redis.Cmder, error) { return c.Pipelined(ctx, f) },
		func(f func(redis.Pipeliner) error) ([]redis.Cmder, error) { return c.TxPipelined(ctx, f) },
	} {
		cmds, err := pipelined(increase)
		must(t, err)
		if got := cmds[999].(*redis.IntCmd).Val(); got != int64(1000*(i+1)) {
			t.Errorf("the last of a pipeline is %d", got)
		}
	}
}

func scriptsPass(t *testing.T, c *redis.Client) {
	t.Helper()
	script := redis.NewScript(`return {KEYS[1], ARGV[1], 3, false, {redis.error_reply("ERR x")}}`)
	for range 2 { // the first falls back from EVALSHA to EVAL
		got, err := script.Run(ctx, c, []string{"k"}, "v").Slice()
		must(t, err)
		if len(got) != 5 || got[0] != "k" || got[1] != "v" || got[2] != int64(3) || got[3] != nil {
			t.Errorf("a script returned %v", got)
		}
	}
}

func messagesPass(t *testing.T, c *redis.Client) {
	t.Helper()
	sub := c.Subscribe(ctx, "a")
	defer sub.Close()
	_, err := sub.Receive(ctx) // confirms a
	must(t, err)
	must(t, sub.PSubscribe(ctx, "b*"))
	_, err = sub.Receive(ctx)
	must(t, err)
	for _, channel := range []string{"a", "b1"} {
		must(t, c.Publish(ctx, channel, "to "+channel).Err())
		msg, err := sub.ReceiveMessage(ctx)
		must(t, err)
		if msg.Channel != channel || msg.Payload != "to "+channel {
			t.Errorf("message %v", msg)
		}
	}
	must(t, sub.Ping(ctx, "still there"))
	_, err = sub.Receive(ctx)
	must(t, err)
}

func blockingPops(t *testing.T, c *redis.Client) {
	t.Helper()
	popped := make(chan string, 1)
	go func() {
		popped <- fmt.Sprint(c.BLPop(ctx, patience, "list").Val())
	}()
	must(t, c.RPush(ctx, "list", "element").Err())
	if got := <-popped; got != "[list element]" {
		t.Errorf("popped %s", got)
	}
}

func TestAClientThatLeavesABlockedCallTakesNothingWithIt(t *testing.T) {
	addr := redistest.Start(t).Addr()
	p, direct := New(t, addr), connect(t, addr)
	c := connect(t, p.Addr())
	pop := p.Add(Rule{Match: Command("BLPOP"), Action: Observe()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.BLPop(ctx, 0, "list")
	}()
	pop.WaitHit(t, 1, patience)
	eventually(t, "the server blocks the client", func() bool { return blockedClients(direct) == 1 })
	must(t, c.Close())
	eventually(t, "the server knows it has gone", func() bool { return blockedClients(direct) == 0 })
	<-done
}

func blockedClients(c *redis.Client) int {
	n := -1
	_, after, _ := strings.Cut(c.Info(ctx, "clients").Val(), "blocked_clients:")
	_, _ = fmt.Sscanf(after, "%d", &n)
	return n
}

func TestManyClientsAtOnceGetTheirOwnReplies(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		c := connect(t, New(t, addr).Addr(), func(o *redis.Options) { o.PoolTimeout = patience })
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { ownReplies(t, c, fmt.Sprint("client", i)) })
		}
		all.Wait()
	})
}

func ownReplies(t *testing.T, c *redis.Client, name string) {
	for j := range 50 {
		want := fmt.Sprint(name, " ", j)
		if got, err := c.Echo(ctx, want).Result(); got != want || err != nil {
			t.Errorf("echo %q: %q, %v", want, got, err)
		}
	}
}

func TestAServerThatDiesAndComesBackDoesBothThroughTheProxy(t *testing.T) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	c := connect(t, p.Addr())
	must(t, c.Ping(ctx).Err())
	s.Kill()
	eventually(t, "the client is disconnected", func() bool { return p.Connections() == 0 })
	if err := c.Ping(ctx).Err(); err == nil {
		t.Fatal("a dead server answers")
	}
	s.Restart()
	eventually(t, "the client is served again", func() bool { return c.Ping(ctx).Err() == nil })
}

func TestAProxyEndsWithItsTestWhateverItsConnectionsDo(t *testing.T) {
	s := redistest.Start(t)
	t.Run("the test", func(t *testing.T) {
		p := New(t, s.Addr())
		hold := p.Add(Rule{Match: Command("GET"), Action: HoldRequest()})
		late := p.Add(Rule{Match: Command("PING"), Action: DelayReply(time.Hour)})
		mute := p.Add(Rule{Match: Command("ECHO"), Action: SwallowReplySilently()})
		owed := p.Add(Rule{Match: Command("BLPOP"), Action: SwallowReply()})
		for _, args := range [][]string{{"GET", "x"}, {"PING", "x"}, {"ECHO", "x"}, {"BLPOP", "x", "0"}} {
			dialWire(t, p.Addr()).send(args...)
		}
		hold.WaitHit(t, 1, patience)
		owed.WaitHit(t, 1, patience)
		late.WaitExecuted(t, 1, patience)
		mute.WaitExecuted(t, 1, patience)
		p.Freeze(true)
		dialWire(t, p.Addr()).send("SET", "x", "y")
		eventually(t, "the frozen request has come", func() bool { return p.Count(Command("SET")) == 1 })
	})
}

func TestAPushThatArrivesFirstIsNotTakenForTheReply(t *testing.T) {
	addr := redistest.Start(t).Addr() // miniredis does not know CLIENT TRACKING
	p, direct := New(t, addr), connect(t, addr)
	blocked := p.Add(Rule{Match: Command("BLPOP"), Action: saying("rewritten")})
	w := dialWire(t, p.Addr())
	for _, args := range [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}, {"GET", "tracked"}} {
		w.send(args...)
		_, err := readReply(w.r)
		must(t, err)
	}
	w.send("BLPOP", "list", "0")
	eventually(t, "the server blocks the client", func() bool { return blockedClients(direct) == 1 })
	must(t, direct.Set(ctx, "tracked", "changed", 0).Err())
	w.wants(">2\r\n" + bulk("invalidate") + "*1\r\n" + bulk("tracked"))
	if blocked.Executed() != 0 {
		t.Fatal("the push counts as the reply")
	}
	must(t, direct.RPush(ctx, "list", "element").Err())
	w.wants(bulk("rewritten"))
}

func TestTheLastWordsOfAServerThatLeavesArriveThoughNothingCanBeSentToIt(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	left := make(chan error, 1)
	go func() { left <- answerOnceAndReset(server) }()

	p := New(t, server.Addr().String())
	p.Add(Rule{Match: CommandWith("ECHO", "first"), Action: DelayReply(50 * time.Millisecond)})
	held := p.Add(Rule{Match: CommandWith("ECHO", "second"), Action: HoldRequest()})
	w := dialWire(t, p.Addr())
	w.send("ECHO", "first")
	w.send("ECHO", "second")
	must(t, <-left)
	held.WaitHit(t, 1, patience)
	held.Release()
	w.wants("+last words\r\n")
	w.wantsEnd()
}

func answerOnceAndReset(server net.Listener) error {
	conn, err := server.Accept()
	if err != nil {
		return err
	}
	if _, _, err := readRequest(bufio.NewReader(conn)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("+last words\r\n")); err != nil {
		return err
	}
	return errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
}
