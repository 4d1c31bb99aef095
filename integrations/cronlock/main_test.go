package cronlock_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers go away here
	goleak.VerifyTestMain(m)
}

// patience bounds waits for what must happen.
const patience = 30 * time.Second

// briefly is for a holder that has to notice a loss: it asks at each third of the lease.
var briefly = fairlock.WithLease(1500 * time.Millisecond)

// onBoth runs a test on the embedded server and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		test(t, server.Addr())
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Addr())
	})
}

// open returns a Locker with a client of its own, as every process has.
func open(t *testing.T, addr string, options ...fairlock.Option) *fairlock.Locker {
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

// until returns when the lock is as wanted.
func until(t *testing.T, l fairlock.Interface, name string, so func(*fairlock.State) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		state, err := l.Inspect(ctx, name)
		if err != nil {
			t.Fatalf("%s is not as it should be: %v", name, err)
		}
		if so(state) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func held(s *fairlock.State) bool { return s.Holder != nil }

func waiting(n int) func(*fairlock.State) bool {
	return func(s *fairlock.State) bool { return len(s.Waiters) == n }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
