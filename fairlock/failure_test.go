package fairlock

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
)

func TestARequestOfALineThatFailsIsOneFailureAndIsToldToAllOfIt(t *testing.T) {
	bubbles.Test(t, oneFailure) // or the line would ask again meanwhile
}

func oneFailure(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody is asked
	defer rdb.Close()
	l := New(rdb)
	keys, err := lua.NewKeys("fairlock", "x")
	if err != nil {
		t.Fatal(err)
	}
	var all []*attempt
	for range 10 {
		a, err := l.begin(&engine.Call{Name: "x", Keys: keys, Request: engine.Request{Wait: -1, Lease: time.Minute, Answered: true}, Began: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	l.mu.Lock()
	for _, a := range all[:9] {
		l.enqueue(a)
	}
	some := exchange{of: all[:8], err: io.EOF}
	again := l.unentered(some)
	ln := l.lines[keys.Record()]
	once := rules.NewLine(time.Now(), time.Second)
	once.Failed(time.Now())
	if !again || ln.Backoff != once.Backoff {
		t.Errorf("after one failure the line waits for %v", ln.Backoff)
	}
	l.mu.Unlock()
	if left := l.unasked(some, all[9:]); len(left) > 0 {
		t.Error("who came with those of the request has to ask alone")
	}
	l.mu.Lock()
	if due := time.Now().Add(once.Backoff); ln.Backoff != once.Backoff || ln.Due.After(due) {
		t.Errorf("with who came with those of the request, the line waits for %v, and asks in %v", ln.Backoff, time.Until(ln.Due))
	}
	for _, a := range all[8:] {
		if l.lastFailure(a) == nil {
			t.Error("who was not in the request is not told of its failure")
		}
	}
	ln.alarm.Stop()
	for _, a := range all {
		l.settle(a, nil, context.Canceled)
		l.forget(a)
	}
	l.mu.Unlock()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
