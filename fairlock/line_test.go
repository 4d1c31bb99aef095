package fairlock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// onEmbedded is a client of an embedded server.
func onEmbedded(t *testing.T) *redis.Client {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// The call gives up after the answer has arrived and before the answer is handled.
func TestACallThatGivesUpAsItsAnswerComesLeavesNothing(t *testing.T) {
	rdb := onEmbedded(t)
	keys, _ := lua.NewKeys("fairlock", "x")
	for what, request := range map[string]engine.Request{"lock": {Wait: -1}, "try": {}} {
		l := New(rdb)
		request.Lease = l.core.Settings.Lease
		a, err := l.begin(&engine.Call{Name: "x", Keys: keys, Request: request, Began: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		var x exchange
		if l.ask(t.Context(), l.core.Server, false, a.alone[:], &x); x.err != nil || x.answer.Tickets[0].Status != lua.Granted {
			t.Fatalf("%s: %v, %v", what, x.answer, x.err)
		}
		_ = l.giveUp(a, func() error { return context.Canceled })
		if err := l.Close(); err != nil { // Close waits for the leave
			t.Fatal(err)
		}
		if rdb.Exists(t.Context(), keys.Record()).Val() != 0 {
			t.Errorf("%s: the lock is held, and nobody knows", what)
		}
	}
}

// The first call sends for both.
func TestACallWhoseContextPanicsAsItAsksForOthersCostsThemNothing(t *testing.T) {
	rdb := onEmbedded(t)
	l := New(rdb)
	defer l.Close()
	keys, _ := lua.NewKeys("fairlock", "x")
	var both []*attempt
	for range 2 {
		a, err := l.begin(&engine.Call{Name: "x", Keys: keys, Request: engine.Request{Wait: -1, Lease: l.core.Settings.Lease}, Began: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, a)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
			_ = l.giveUp(both[0], func() error { return errVanished })
		}()
		l.enter(panics{t.Context()}, l.core.Server, false, both...)
	}()
	turn, err := l.await(t.Context(), both[1])
	if err != nil {
		t.Fatal(err)
	}
	l.core.Abandon(turn)
}

type panics struct{ context.Context }

func (panics) Err() error            { panic("the user's own") }
func (panics) Done() <-chan struct{} { return nil }

// As when the timer of the older one had waited for l.mu.
func TestTheIdleTimerOfAnEndedSubscriptionLeavesANewerOneAlone(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	keys, _ := lua.NewKeys("fairlock", "x")
	channel := l.core.Server.Channel(keys)
	ended, newer := &subscription{cancel: func() {}}, &subscription{cancel: func() {}}
	l.mu.Lock()
	l.subscriptions[channel] = newer
	l.mu.Unlock()
	l.unsubscribe(keys, ended)
	l.mu.Lock()
	stands := l.subscriptions[channel] == newer
	l.mu.Unlock()
	if !stands {
		t.Error("it threw out the newer one")
	}
}

func TestTheIdleTimerLeavesASubscriptionAloneWhileAFirstRequestIsUnderWay(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	keys, _ := lua.NewKeys("fairlock", "x")
	channel := l.core.Server.Channel(keys)
	cancelled := false
	idle := &subscription{cancel: func() { cancelled = true }, idle: time.NewTimer(time.Hour)}
	a := &attempt{Call: engine.Call{Keys: keys}}
	l.mu.Lock()
	l.subscriptions[channel] = idle
	l.mu.Unlock()
	_, _ = l.arrive(a)
	l.unsubscribe(keys, idle)
	if cancelled {
		t.Error("the server saw it with the request, and it is gone before a message can come")
	}
	l.arrived(a)
	l.unsubscribe(keys, idle)
	if !cancelled {
		t.Error("it stays for ever")
	}
	idle.idle.Stop()
}

// The one that the server has seen was about to end.
func TestAWaiterThatIsHeardByASubscriptionThatHasEndedMakesOne(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	keys, _ := lua.NewKeys("fairlock", "x")
	a, err := l.begin(&engine.Call{Name: "x", Keys: keys, Request: engine.Request{Wait: -1, Lease: l.core.Settings.Lease}, Began: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	a.requests.Sent()
	x := exchange{of: a.alone[:], sent: rules.ClockPair{Sent: time.Now()}, answer: lua.Entered{
		Holder: "another", Remaining: time.Minute, Waiting: 1, Heard: true,
		Tickets: []lua.TicketState{{Status: lua.Waiting, Place: 1, Position: 1}},
	}}
	x.done()
	l.answered(x)
	listens := l.subscriptions[l.core.Server.Channel(keys)] != nil
	l.mu.Unlock()
	if !listens {
		t.Error("nobody listens")
	}
	_ = l.giveUp(a, func() error { return context.Canceled })
}

// Each lock of a cluster has a subscription of its own, and they all come up together.
func TestASubscriptionThatComesUpCostsNothingForTheLocksOfOthers(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = rdb.Close() })
	l := New(rdb)
	t.Cleanup(func() { _ = l.Close() })
	for i := range 1000 {
		keys, _ := lua.NewKeys("fairlock", strconv.Itoa(i))
		ln := &line{keys: keys, alarm: engine.NewAlarm(time.Now().Add(time.Hour), func() {})}
		t.Cleanup(func() { ln.alarm.Stop() })
		l.lines[keys.Record()] = ln
	}
	keys, _ := lua.NewKeys("fairlock", "7")
	idle := time.NewTimer(time.Hour)
	t.Cleanup(func() { idle.Stop() })
	s := &subscription{keys: keys, idle: idle}
	if n := testing.AllocsPerRun(10, func() { l.subscribed(s) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
	clear(l.lines)
}
