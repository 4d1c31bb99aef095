package reentrant_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// closer is a context that closes a Locker when it is asked for its error and has ended.
type closer struct {
	context.Context
	once  sync.Once
	close func()
}

func (c *closer) Err() error {
	err := c.Context.Err()
	if err != nil {
		c.once.Do(c.close)
	}
	return err
}

// halting is a hook that keeps scripts until it is told to go on.
type halting struct{ asked, goOn chan struct{} }

func (h *halting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *halting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.asked <- struct{}{}
			<-h.goOn
		}
		return next(ctx, cmd)
	}
}

func (h *halting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAContextThatClosesTheLockerAmidATryOfACallThatWaitsKeepsNeither(t *testing.T) {
	server := redistest.Start(t)
	other, rdb := reentrant.New(server.Client(t)), server.Client(t)
	defer other.Close()
	held, err := other.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	l := reentrant.New(rdb)
	if _, err := l.Lock(t.Context(), "y"); err != nil { // the first contact
		t.Fatal(err)
	}
	h := &halting{make(chan struct{}), make(chan struct{})}
	rdb.AddHook(h)
	within, end := context.WithCancel(t.Context())
	done, waits := make(chan error, 1), make(chan int, 1)
	go func() {
		ctx := &closer{Context: within, close: func() { close(h.goOn); _ = l.Close() }}
		_, err := l.Lock(ctx, "x", reentrant.OnQueued(func(position int) { waits <- position }))
		done <- err
	}()
	next(t, h.asked)
	h.goOn <- struct{}{}
	next(t, waits) // the first try has found it held
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, h.asked)
	go func() {
		for range h.asked { // of what is given back
		}
	}()
	defer close(h.asked)
	end()
	if err := next(t, done); err == nil {
		t.Error("the call has the lock")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// next is what comes within ten seconds.
func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes")
	}
	return v
}
