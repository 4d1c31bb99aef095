package lua

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAScriptThatTheServerDoesNotHaveIsSentWhole(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		var ticket string
		var token int64
		for _, verb := range []func(){
			func() { ticket, token = a.holds(usual) },
			func() { a.renews(a.renewal(ticket, token)) },
			func() { a.reasserts(a.renewal(ticket, token)) },
			func() { a.inspects() },
			func() { a.forces(token + 1) },
			func() { a.leaves(ticket, token, Held) },
		} {
			must(t, s.rdb.ScriptFlush(ctx).Err())
			verb()
		}
		loaded, err := s.rdb.ScriptExists(ctx, leaveScript.sha.(string)).Result()
		must(t, err)
		equal(t, "known by its hash", loaded[0], true)
	})
}

// listener answers every connection with serve and counts the requests to run a script.
func listener(t *testing.T, serve func(conn net.Conn, request string)) (addr string, scripts *atomic.Int64) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	scripts = new(atomic.Int64)
	closed := make(chan struct{})
	conns := make(chan net.Conn, 100)
	go func() {
		defer close(closed)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns <- conn
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					switch text := strings.ToLower(lines.Text()); text {
					case "evalsha", "eval":
						scripts.Add(1)
						serve(conn, text)
					case "hello", "client":
						fmt.Fprint(conn, "-ERR unknown command\r\n")
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close() // makes Accept return
		<-closed
		close(conns)
		for conn := range conns {
			_ = conn.Close() // it may be closed already
		}
	})
	return ln.Addr().String(), scripts
}

func enterAt(t *testing.T, addr string, within time.Duration, mutate ...func(*redis.Options)) error {
	t.Helper()
	opts := &redis.Options{Addr: addr, ReadTimeout: within, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond}
	for _, change := range mutate {
		change(opts)
	}
	c := redis.NewClient(opts)
	defer c.Close()
	_, err := NewServer(c, "w:", "a").Enter(ctx, keysOf(t, "x"), Enter{Tickets: []EnterTicket{{Ticket: parsed("a:1:30000::")}}})
	if err == nil {
		t.Fatal("it was answered")
	}
	return err
}

func TestARequestIsSentOnceThoughItsAnswerIsLost(t *testing.T) {
	for what, serve := range map[string]func(net.Conn, string){
		"closed":  func(conn net.Conn, _ string) { _ = conn.Close() },
		"silent":  func(net.Conn, string) {},
		"loading": func(conn net.Conn, _ string) { fmt.Fprint(conn, "-LOADING Redis is loading the dataset in memory\r\n") },
		"readonly": func(conn net.Conn, _ string) {
			fmt.Fprint(conn, "-READONLY You can't write against a read only replica.\r\n")
		},
	} {
		t.Run(what, func(t *testing.T) {
			addr, scripts := listener(t, serve)
			err := enterAt(t, addr, time.Second)
			equal(t, "requests", scripts.Load(), 1)
			equal(t, "unanswered", Unanswered(err), what == "closed" || what == "silent")
			equal(t, "answered", Answered(err), what == "loading" || what == "readonly")
			equal(t, "unsent", Unsent(err), false)
			equal(t, "passing", Passing(err), what == "loading" || what == "readonly")
		})
	}
}

func TestARequestThatFoundNoConnectionIsNotUnanswered(t *testing.T) {
	err := enterAt(t, "127.0.0.1:1", time.Second)
	equal(t, "refused: unsent", Unsent(err), true)
	equal(t, "refused: unanswered", Unanswered(err), false)

	server := single(t)
	c := server.Client(t)
	must(t, c.Close())
	_, err = NewServer(c, "w:", "a").Inspect(ctx, keysOf(t, "x"), 0, 1)
	equal(t, "closed: unsent", Unsent(err), true)

	one := server.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, 10*time.Millisecond })
	conn := one.Conn()
	must(t, conn.Ping(ctx).Err())
	_, err = NewServer(one, "w:", "a").Inspect(ctx, keysOf(t, "x"), 0, 1)
	equal(t, "exhausted: unsent", Unsent(err), true)
	equal(t, "exhausted: unanswered", Unanswered(err), false)
	must(t, conn.Close())
}

func TestAnErrorSaysWhetherTheRequestMayHaveBeenExecuted(t *testing.T) {
	_, wrongType := onRedis(t).party("a").Do(ctx, "INCRBY", "k", "x")
	for _, c := range []struct {
		err                           error
		unanswered, answered, passing bool
	}{
		{nil, false, false, false},
		{wrongType, false, true, false},
		{fmt.Errorf("renew: %w", wrongType), false, true, false},
		{redis.Nil, false, true, false},
		{said("NOREPLICAS Not enough good replicas to write. script: f00, on @user_script:27."), false, true, true},
		{said("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false, true, true},
		{said("upstream failure"), true, false, false},
		{fmt.Errorf("leave: %w", said("upstream protocol error")), true, false, false},
		{said("ERR upstream request timeout"), true, false, false},
		{said("no upstream host"), true, false, false},
		{said("ERR Connection timed out"), true, false, false},
		{said("ERR Connection reset by peer"), true, false, false},
		{said("ERR unknown"), true, false, false},
		{said("ERR server connection close"), true, false, false},
		{said("ERR handle response, backend conn reset"), true, false, false},
		{said("ERR unknown command 'EVALSHA'"), false, true, false},
		{said("ERR Connection timed out of mind"), false, true, false},
		{said("NOPERM upstream failure"), false, true, false},
		{io.EOF, true, false, false},
		{context.Canceled, true, false, false},
		{context.DeadlineExceeded, true, false, false},
		{errors.New("LOADING of another kind"), true, false, false},
		{&net.OpError{Op: "read", Err: io.EOF}, true, false, false},
		{&net.OpError{Op: "dial", Err: io.EOF}, false, false, false},
		{redis.ErrClosed, false, false, false},
		{redis.ErrPoolTimeout, false, false, false},
	} {
		equal(t, fmt.Sprint("unanswered: ", c.err), Unanswered(c.err), c.unanswered)
		equal(t, fmt.Sprint("answered: ", c.err), Answered(c.err), c.answered)
		equal(t, fmt.Sprint("passing: ", c.err), Passing(c.err), c.passing)
	}
}

// said is an error in the words of a server, or of a proxy.
type said string

func (e said) Error() string { return string(e) }
func (said) RedisError()     {}

func TestAnAnswerOfAnotherKindIsAnError(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", ":1\r\n", "*0\r\n", "$-1\r\n", "*2\r\n:1\r\n$-1\r\n"} {
		addr, _ := listener(t, func(conn net.Conn, _ string) { fmt.Fprint(conn, reply) })
		c := redis.NewClient(&redis.Options{Addr: addr})
		p, keys := NewServer(c, "w:", "a"), keysOf(t, "x")
		_, entered := p.Enter(ctx, keys, Enter{})
		_, left := p.Leave(ctx, keys, nil)
		renewed := p.Renew(ctx, []Renewal{{Keys: keys}, {Keys: keys}})[0].Err
		_, inspected := p.Inspect(ctx, keys, 0, 1)
		_, _, forced := p.Force(ctx, keys, 1)
		for verb, err := range map[string]error{"enter": entered, "leave": left, "renew": renewed, "inspect": inspected, "force": forced} {
			if err == nil {
				t.Errorf("%s answered %q", verb, reply)
			}
		}
		must(t, c.Close())
	}
}

// The server is slow to say that it does not have the script, and then says nothing.
func TestAScriptThatIsSentTwiceKeepsItsCallerNoLongerThanOneThatIsNot(t *testing.T) {
	for _, read := range []time.Duration{2 * time.Second, 4 * time.Second} { // the caller sends, or awaits
		addr, _ := listener(t, func(conn net.Conn, request string) {
			if request == "evalsha" {
				time.Sleep(1600 * time.Millisecond)
				fmt.Fprint(conn, "-NOSCRIPT none\r\n")
			}
		})
		rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: read, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		s := NewServer(rdb, "w:", "a")
		var all sync.WaitGroup
		s.Spawn(all.Go, nil)
		soon, ok := s.Prompt(ctx, 2*time.Second)
		equal(t, "prompt", ok, true)
		begin := time.Now()
		_, err := soon.Inspect(ctx, keysOf(t, "x"), 0, 1)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("read timeout %v: %v after %v", read, err, took)
		}
		all.Wait()
	}
}
