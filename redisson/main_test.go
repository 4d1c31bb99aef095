package redisson

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// world is a server, and clients for it that end with the test.
type world struct {
	*testing.T
	addr   string
	direct *redis.Client
	real   bool
}

// onBoth runs a test on the embedded server and on a real one.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(newWorld(t, miniredis.RunT(t).Addr(), false)) })
	t.Run("real", func(t *testing.T) { test(newWorld(t, redistest.Start(t).Addr(), true)) })
}

// onBothAtOnce is onBoth for a test that mostly waits.
func onBothAtOnce(t *testing.T, test func(w *world)) {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() { t.Run("embedded", func(t *testing.T) { test(newWorld(t, miniredis.RunT(t).Addr(), false)) }) })
	all.Go(func() { t.Run("real", func(t *testing.T) { test(newWorld(t, redistest.Start(t).Addr(), true)) }) })
	all.Wait()
}

func newWorld(t *testing.T, addr string, isReal bool) *world {
	t.Helper()
	w := &world{T: t, addr: addr, direct: redis.NewClient(&redis.Options{Addr: addr}), real: isReal}
	t.Cleanup(func() { _ = w.direct.Close() })
	return w
}

// kinds runs a test for the fair and for the plain lock.
func (w *world) kinds(test func(w *world, l func(...Option) *Locker)) {
	w.Helper()
	for kind, newLocker := range map[string]func(redis.UniversalClient, ...Option) *Locker{"fair": New, "plain": NewPlain} {
		w.Run(kind, func(t *testing.T) {
			one := &world{T: t, addr: w.addr, direct: w.direct, real: w.real}
			one.must(w.direct.FlushAll(t.Context()).Err())
			test(one, func(options ...Option) *Locker { return one.locker(newLocker, options...) })
		})
	}
}

// fair is a Locker of fair locks.
func (w *world) fair(options ...Option) *Locker { return w.locker(New, options...) }

func (w *world) locker(newLocker func(redis.UniversalClient, ...Option) *Locker, options ...Option) *Locker {
	w.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.addr})
	l := newLocker(rdb, options...)
	w.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("%v, want %v", err, want)
	}
}

// has is a lock that is to be had at once.
func (w *world) has(l *Locker, name string, options ...LockOption) *Lease {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	lease, err := l.Lock(ctx, name, options...)
	w.must(err)
	return lease
}

func (w *world) unlock(lease *Lease) {
	w.Helper()
	w.must(lease.Unlock(context.Background()))
}

// outcome is what came of a call.
type outcome struct {
	lease *Lease
	err   error
}

// asks calls Lock in a goroutine.
func (w *world) asks(ctx context.Context, l *Locker, name string, options ...LockOption) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		lease, err := l.Lock(ctx, name, options...)
		done <- outcome{lease, err}
	}()
	return done
}

// queues is asks, and returns when n wait in line.
func (w *world) queues(ctx context.Context, l *Locker, name string, n int64, options ...LockOption) <-chan outcome {
	w.Helper()
	done := w.asks(ctx, l, name, options...)
	w.until(fmt.Sprintf("%d in line", n), func() bool { return w.inLine(name) == n })
	return done
}

func (w *world) inLine(name string) int64 {
	return w.direct.LLen(context.Background(), prefixed(queues, name)).Val()
}

// gets is the Lease of a call that has waited.
func (w *world) gets(done <-chan outcome) *Lease {
	w.Helper()
	o := w.ends(done)
	w.must(o.err)
	return o.lease
}

func (w *world) ends(done <-chan outcome) outcome {
	w.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(patience):
		w.Fatalf("a call does not end:\n%s", redistest.Dump(w.direct))
		return outcome{}
	}
}

func (w *world) until(what string, holds func() bool) {
	w.Helper()
	if !poll.Until(patience, holds) {
		w.Fatalf("waited in vain for: %s\n%s", what, redistest.Dump(w.direct))
	}
}

// nothing fails if anything of a lock stays on the server but marks, which end by themselves.
func (w *world) nothing() {
	w.Helper()
	w.until("nothing is left", func() bool {
		keys := w.direct.Keys(context.Background(), "*").Val()
		return !slices.ContainsFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "fairlock_left:") })
	})
}
