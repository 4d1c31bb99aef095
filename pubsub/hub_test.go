package pubsub_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/pipes"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// Where a hook ends a goroutine amid Receive, go-redis leaves a mutex locked that its Close wants.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*PubSub).Close"))
}

// The client goes to another server while the first one lives on with the subscription, as after a
// Sentinel failover.
func TestASubscriptionFollowsTheRequestsToAnotherServer(t *testing.T) {
	followed(t, func(*redis.Client, *redistest.Server) {})
}

// followed fails unless the subscription follows the client. before is called while it is up at the
// first server.
func followed(t *testing.T, before func(*redis.Client, *redistest.Server)) {
	t.Helper()
	first, second := redistest.Start(t), redistest.Start(t)
	var to atomic.Pointer[redistest.Server]
	to.Store(first)
	rdb := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, to.Load().Addr())
	}})
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil { // puts a connection into the pool
		t.Fatal(err)
	}
	var heard recorder
	newHub(t, rdb).Listen("a", heard.listener())
	until(t, "it is up", func() bool { ups, _ := heard.heard(); return ups == 1 })
	before(rdb, first)
	to.Store(second)
	dropConnections(t, rdb, first)
	until(t, "it is up again", func() bool { ups, _ := heard.heard(); return ups == 2 })
	if err := rdb.Publish(t.Context(), "a", "x").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "it hears", func() bool { _, messages := heard.heard(); return len(messages) == 1 })
}

// dropConnections has the client notice that its pooled connections are gone.
func dropConnections(t *testing.T, rdb *redis.Client, server *redistest.Server) {
	t.Helper()
	if err := server.Client(t).ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// recorder is a listener that remembers what it heard.
type recorder struct {
	mu       sync.Mutex // guards ups and messages
	ups      int
	messages []string
}

func (e *recorder) listener() *pubsub.Listener {
	return &pubsub.Listener{
		Up: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ups++
		},
		Message: func(payload string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.messages = append(e.messages, payload)
		},
	}
}

func (e *recorder) heard() (ups int, messages []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ups, append([]string(nil), e.messages...)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(20*time.Second, holds) {
		t.Fatalf("waited in vain for: %s", what)
	}
}

func newHub(t *testing.T, rdb redis.UniversalClient) *pubsub.Hub {
	hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
	t.Cleanup(hub.Close)
	return hub
}

func TestManyListenersShareOneConnectionAndEachHearsItsOwnChannelInOrder(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	hub := newHub(t, rdb)
	ctx := context.Background()
	if n := len(rdb.ClientList(ctx).Val()); n == 0 {
		t.Fatal("no client list")
	}
	var a, a2, b recorder
	hub.Listen("a", a.listener())
	until(t, "a is up", func() bool { ups, _ := a.heard(); return ups > 0 })
	hub.Listen("b", b.listener())
	hub.Listen("a", a2.listener())
	until(t, "all are up", func() bool {
		ups, _ := b.heard()
		ups2, _ := a2.heard()
		return ups > 0 && ups2 > 0
	})
	for _, payload := range []string{"1", "2", "3"} {
		rdb.Publish(ctx, "a", payload)
		rdb.Publish(ctx, "b", "b"+payload)
	}
	for _, e := range []*recorder{&a, &a2, &b} {
		until(t, "three messages", func() bool { _, m := e.heard(); return len(m) == 3 })
	}
	if _, m := b.heard(); m[0] != "b1" || m[2] != "b3" {
		t.Fatalf("b heard %v", m)
	}
	if got := rdb.PubSubNumSub(ctx, "a", "b").Val(); got["a"] != 1 || got["b"] != 1 {
		t.Fatalf("subscribers: %v", got)
	}
}

func TestTheLastListenerToGoEndsTheSubscriptionAndCloseEndsAll(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	hub := newHub(t, rdb)
	ctx := context.Background()
	var one, two recorder
	forgetOne := hub.Listen("a", one.listener())
	forgetTwo := hub.Listen("a", two.listener())
	hub.Listen("b", two.listener())
	subscribers := func(channel string) int64 { return rdb.PubSubNumSub(ctx, channel).Val()[channel] }
	until(t, "both channels", func() bool { return subscribers("a") == 1 && subscribers("b") == 1 })
	forgetOne()
	forgetTwo()
	until(t, "a is over", func() bool { return subscribers("a") == 0 })
	if subscribers("b") != 1 {
		t.Fatal("b went too")
	}
	hub.Close()
	hub.Close()
	until(t, "b is over", func() bool { return subscribers("b") == 0 })
	hub.Listen("c", one.listener())() // the returned function does nothing
}

func TestAnUpIsReportedAfterEveryCutAndNothingIsMissedAfterIt(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	hub := newHub(t, rdb)
	ctx := context.Background()
	var e recorder
	hub.Listen("a", e.listener())
	for cut := range 10 {
		until(t, "up again", func() bool { ups, _ := e.heard(); return ups > cut })
		if n := rdb.Publish(ctx, "a", "x").Val(); n < 1 {
			t.Fatalf("up, but %d receivers", n)
		}
		until(t, "the message", func() bool { _, m := e.heard(); return len(m) == cut+1 })
		if cut%2 == 0 {
			rdb.ClientKillByFilter(ctx, "TYPE", "pubsub")
		} else {
			hub.Remake("a")
		}
	}
}

func TestAConnectionThatFallsSilentIsReplaced(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.New(t, server.Addr())
	var dials atomic.Int32
	rdb := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", proxy.Addr())
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	hub := newHub(t, rdb)
	var e recorder
	hub.Listen("a", e.listener())
	until(t, "up", func() bool { ups, _ := e.heard(); return ups == 1 })
	proxy.Freeze(true)
	before := dials.Load()
	until(t, "another connection", func() bool { return dials.Load() > before })
	proxy.Freeze(false)
	until(t, "up again", func() bool { ups, _ := e.heard(); return ups > 1 })
}

func TestListeningNeverWaitsForAServer(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	hub := newHub(t, rdb)
	var e recorder
	start := time.Now()
	hub.Listen("a", e.listener())
	if time.Since(start) > time.Second {
		t.Fatal("it waited")
	}
}

func TestASilentChannelIsPingedAndKeptInFakeTime(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: pipes.New(t).Dial})
		defer func() { _ = rdb.Close() }()
		hub := pubsub.New(rdb, slog.New(slog.DiscardHandler))
		defer hub.Close()
		var e recorder
		hub.Listen("a", e.listener())
		time.Sleep(time.Hour)
		if ups, _ := e.heard(); ups != 1 {
			t.Fatalf("the subscription was made %d times within a silent hour", ups)
		}
	})
}

// A server that is busy with a script refuses pings. So does a server whose disk is full.
func TestASubscriptionOutlivesPingsThatAreRefusedForNow(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "50")
	rdb := server.Client(t)
	var heard recorder
	newHub(t, server.Client(t)).Listen("a", heard.listener())
	until(t, "it is up", func() bool { ups, _ := heard.heard(); return ups == 1 })
	subscriber := func() string {
		return rdb.Do(t.Context(), "client", "list", "type", "pubsub").Val().(string)[:10] // its id
	}
	before := subscriber()
	busy := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	done := make(chan error, 1)
	go func() { done <- busy.Eval(t.Context(), "while true do end", nil).Err() }()
	time.Sleep(4 * time.Second) // longer than from one ping to the next
	if err := rdb.ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the script has ended by itself")
	}
	if err := rdb.Publish(t.Context(), "a", "x").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "it hears", func() bool { _, messages := heard.heard(); return len(messages) == 1 })
	if after := subscriber(); after != before {
		t.Errorf("the subscription is another one: %s, before %s", after, before)
	}
}

func TestASubscriptionThatIsRefusedForNowIsRepeatedBeforeTheNextPing(t *testing.T) {
	server := redistest.Start(t, "--busy-reply-threshold", "50")
	rdb := server.Client(t)
	busy := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	done := make(chan error, 1)
	go func() { done <- busy.Eval(t.Context(), "while true do end", nil).Err() }()
	until(t, "it is busy", func() bool { return redis.HasErrorPrefix(rdb.Get(t.Context(), "x").Err(), "BUSY") })
	var heard recorder
	newHub(t, server.Client(t)).Listen("a", heard.listener())
	time.Sleep(700 * time.Millisecond) // the server refuses the subscription, twice
	if err := rdb.ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the script has ended by itself")
	}
	free := time.Now()
	until(t, "it is up", func() bool { ups, _ := heard.heard(); return ups == 1 })
	if took := time.Since(free); took > 2*time.Second { // the next ping comes 2.3 s after
		t.Errorf("it was subscribed %v after the server could do so", took)
	}
}
