package world

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/redistest"
)

// OnBoth runs a test on the embedded server and on a real one, side by side. addr is the server's.
func OnBoth(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	Together(t, map[string]func(*testing.T){
		"embedded": func(t *testing.T) {
			server, err := embedded.Start()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			test(t, server.Addr())
		},
		"real": func(t *testing.T) { test(t, redistest.Start(t).Addr()) },
	})
}

// Host returns a Locker with a client of its own, as each host has. It logs nothing.
func Host(t *testing.T, addr string, options ...fairlock.Option) *fairlock.Locker {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	l := fairlock.New(rdb, append([]fairlock.Option{quiet}, options...)...)
	t.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

// UntilHeld returns when the lock is held, or is free.
func UntilHeld(t *testing.T, l fairlock.Interface, name string, held bool) {
	t.Helper()
	untilIs(t, l, name, func(s *fairlock.State) bool { return (s.Holder != nil) == held })
}

// UntilWaiting returns when n calls wait for the lock.
func UntilWaiting(t *testing.T, l fairlock.Interface, name string, n int) {
	t.Helper()
	untilIs(t, l, name, func(s *fairlock.State) bool { return len(s.Waiters) == n })
}

func untilIs(t *testing.T, l fairlock.Interface, name string, so func(*fairlock.State) bool) {
	t.Helper()
	Until(t, name+" is as it should be", func() bool {
		state, err := l.Inspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return so(state)
	})
}

// Next returns what comes from a channel.
func Next[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case got = <-from:
	case <-timer.C:
		t.Fatalf("nothing comes within %v", Patience)
	}
	return got
}

// Must fails the test if there is an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
