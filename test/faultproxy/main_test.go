package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them should come near it.
const patience = 10 * time.Second

var ctx = context.Background()

// onEveryServer runs a test before a fake and before a real Redis.
func onEveryServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { test(t, miniredis.RunT(t).Addr()) })
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Addr()) })
}

// connect returns a client that tries everything once.
func connect(t *testing.T, addr string, mutate ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1}
	for _, change := range mutate {
		change(opts)
	}
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func resp(version int) func(*redis.Options) {
	return func(o *redis.Options) { o.Protocol = version }
}

func impatient(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok returns true. If it never does, the failure names what.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(patience, ok) {
		t.Fatalf("waited %v in vain until %s", patience, what)
	}
}

// stays looks many times, each a round trip to the server, that key is want.
func stays(t *testing.T, direct *redis.Client, key, want string) {
	t.Helper()
	for range 100 {
		if got := direct.Get(ctx, key).Val(); got != want {
			t.Fatalf("%s = %q, want it to stay %q", key, got, want)
		}
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func isDisconnect(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// fatalOf runs test with a TB that remembers its first Fatal.
func fatalOf(t *testing.T, test func(testing.TB)) string {
	f := &fatal{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f.text
}

type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *fatal) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// errorsOf is a TB that remembers its last Error instead of failing.
type errorsOf struct {
	testing.TB
	text atomic.Pointer[string]
}

func (e *errorsOf) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.text.Store(&text)
}
