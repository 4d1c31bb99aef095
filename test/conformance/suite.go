// Package conformance is a test suite for what every Locker must do on every server. It runs on the
// embedded server inside a synctest bubble, where leases pass in fake time. It also runs on a real
// redis-server, where leases are short.
//
// Tests wait for events: [World.Until] polls in fake time or in real time.
package conformance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/poll"
)

// Locker is what the suite tests.
type Locker = fairlock.Interface

// World is a server and the time it lives in.
type World struct {
	*testing.T

	// Lease is the default lease of its Lockers. Where time is real, only tests that say briefly
	// have what it was at first, which is short. The others have one that is kept, and so have
	// those that wait for its renewals.
	Lease time.Duration
	// Fake says that the time is a bubble's: waiting is free and exact.
	Fake bool
	// Dial connects one more client; the test closes it.
	Dial func() redis.UniversalClient
	// New makes a Locker of the kind under test.
	New func(redis.UniversalClient, ...fairlock.Option) Locker
	// Plain says that its Lockers promise no order. They differ in nothing else.
	Plain bool

	admin   redis.UniversalClient
	brief   time.Duration // the lease of tests that wait for the end of one
	waiting *atomic.Int64 // calls that were told that they wait, and have not returned
}

// Run runs the whole suite. Each test gets a World of its own from each.
func Run(t *testing.T, each func(t *testing.T, test func(World))) {
	RunLocks(t, each)
	run(t, each, callbackTests, contextTests, oddContextTests, hookTests, inputTests)
}

// RunLocks is Run without the tests of what users' own code does: callbacks, contexts, hooks. What
// that comes to does not depend on the kind of server.
func RunLocks(t *testing.T, each func(t *testing.T, test func(World))) {
	run(t, each, waitingTests, nestingTests, leaseTests, classicTests, endingTests, lockAllTests, droppedTests)
}

func run(t *testing.T, each func(t *testing.T, test func(World)), groups ...[]test) {
	for _, group := range groups {
		for _, c := range group {
			t.Run(strings.ReplaceAll(c.promise, " ", "_"), func(t *testing.T) {
				each(t, func(w World) {
					w.admin, w.waiting = w.Dial(), new(atomic.Int64)
					w.brief, w.Lease = w.Lease, w.calm()
					defer func() { _ = w.admin.Close() }()
					c.run(&w)
					w.nothingStays()
				})
			})
		}
	}
}

type test struct {
	promise string
	run     func(*World)
}

// briefly has a test wait for short leases.
func briefly(run func(*World)) func(*World) {
	return func(w *World) {
		w.Lease = w.brief
		run(w)
	}
}

// Locker makes a Locker with a client of its own, as another process would. Both end with the test.
func (w *World) Locker(options ...fairlock.Option) Locker { return w.over(w.Dial(), options...) }

// hookedLocker is Locker with a hook in its client.
func (w *World) hookedLocker(h redis.Hook, options ...fairlock.Option) Locker {
	rdb := w.Dial()
	rdb.AddHook(h)
	return w.over(rdb, options...)
}

func (w *World) over(rdb redis.UniversalClient, options ...fairlock.Option) Locker {
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	l := w.New(rdb, append([]fairlock.Option{fairlock.WithLease(w.Lease), quiet}, options...)...)
	w.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

// Until polls until the condition holds. what names the condition in messages.
func (w *World) Until(what string, holds func() bool) {
	w.Helper()
	if !poll.Until(20*time.Second, holds) {
		w.Fatalf("waited in vain for: %s", what)
	}
}

// Pass lets time go by.
func (w *World) Pass(d time.Duration) { time.Sleep(d) }

// calm returns a lease that is renewed in time however busy the machine is.
func (w *World) calm() time.Duration {
	if w.Fake {
		return w.Lease
	}
	return max(w.Lease, 3*time.Second)
}

// rounds returns how often a test does what takes a part of a lease: in fake time, or by the wall
// clock.
func (w *World) rounds(fake, wall int) int {
	if w.Fake {
		return fake
	}
	return wall
}

// renewed fails unless a lease is renewed in time, by more than that. In fake time that takes
// several renewals.
func (w *World) renewed(lease *fairlock.Lease, by time.Duration) {
	w.Helper()
	until := lease.Deadline().Add(by)
	if w.Fake {
		w.Pass(3 * w.Lease)
	}
	w.Until("it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(until) })
	w.NoError(lease.Err())
}

// prolonged fails unless somebody renews a lock's record. A claim that becomes a lease is no
// renewal.
func (w *World) prolonged(name string) {
	w.Helper()
	end := w.expiry(name)
	if w.Fake {
		w.Pass(w.Lease)
	}
	w.Until("the record is renewed", func() bool { return w.expiry(name) > end+w.Lease/4 })
}

// trusted fails if a lease ended before that time. On a busy machine the time may be over.
func (w *World) trusted(until time.Time, err error) {
	w.Helper()
	if errors.Is(err, fairlock.ErrLost) && time.Now().After(until) && !w.Fake {
		return
	}
	w.NoError(err)
}

// answered returns a bound for a call that is to be answered before: d where no time is lost.
func (w *World) answered(d time.Duration) time.Duration {
	if w.Fake {
		return d
	}
	return max(d, 2200*time.Millisecond) // before a heartbeat
}

// remains fails unless that is left of a lease that was asked for after before.
func (w *World) remains(left, lease time.Duration, before time.Time) {
	w.Helper()
	const rounding = 2 * time.Millisecond // of the server's clock
	least := lease - time.Since(before) - rounding
	w.That(left >= least && left <= lease, "%v remain of %v, at least %v should", left, lease, least)
}

// Lock calls Lock, which must succeed.
func (w *World) Lock(l Locker, name string, options ...fairlock.LockOption) *fairlock.Lease {
	w.Helper()
	return w.LockIn(w.Context(), l, name, options...)
}

// LockIn calls Lock under ctx, which must succeed.
func (w *World) LockIn(ctx context.Context, l Locker, name string, options ...fairlock.LockOption) *fairlock.Lease {
	w.Helper()
	lease, err := l.Lock(ctx, name, options...)
	w.NoError(err)
	return lease
}

// Outcome is the result of a call in the background.
type Outcome struct {
	Lease *fairlock.Lease
	Err   error
	At    time.Time // of the return, if the call was made by Queue
}

// Queue has a call wait. It returns when n calls wait and this call knows that it does; in a line
// this call is the nth.
func (w *World) Queue(ctx context.Context, l Locker, name string, n int, options ...fairlock.LockOption) <-chan Outcome {
	w.Helper()
	result := make(chan Outcome, 1)
	var waits atomic.Bool
	queued := fairlock.OnQueued(func(int) {
		if !waits.Swap(true) {
			w.waiting.Add(1)
		}
	})
	go func() {
		lease, err := l.Lock(ctx, name, append(options, queued)...)
		at := time.Now()
		if waits.Load() {
			w.waiting.Add(-1)
		}
		result <- Outcome{lease, err, at}
	}()
	w.Until("it waits", func() bool { return waits.Load() && w.InLine(name) == n })
	return result
}

// InLine returns how many calls wait for the lock. The World counts the waiters of a plain lock
// itself, because the server does not know them.
func (w *World) InLine(name string) int {
	if w.Plain {
		return int(w.waiting.Load())
	}
	return int(w.admin.LLen(context.Background(), "fairlock:queue:{"+name+"}").Val())
}

// Record returns the key of a lock's record.
func (w *World) Record(name string) string {
	if w.Plain {
		return "fairlock:plain:lock:{" + name + "}"
	}
	return "fairlock:lock:{" + name + "}"
}

// Serve has the waiting calls get the lock and unlock, one after the other, in their order if there
// is one.
func (w *World) Serve(line ...<-chan Outcome) (leases []*fairlock.Lease) {
	w.Helper()
	for len(line) > 0 {
		next := 0
		if w.Plain {
			w.Until("somebody is served", func() bool {
				next = slices.IndexFunc(line, func(c <-chan Outcome) bool { return len(c) > 0 })
				return next >= 0
			})
		}
		lease := w.Take(line[next])
		line = slices.Delete(line, next, next+1)
		for _, other := range line {
			w.That(len(other) == 0, "two have the lock")
		}
		leases = append(leases, lease)
		w.Unlock(lease)
	}
	return leases
}

// Take waits for an outcome, which must be a Lease.
func (w *World) Take(result <-chan Outcome) *fairlock.Lease {
	w.Helper()
	o := w.Wait(result)
	w.NoError(o.Err)
	return o.Lease
}

// Wait waits for an outcome.
func (w *World) Wait(result <-chan Outcome) Outcome {
	w.Helper()
	select {
	case o := <-result:
		return o
	case <-time.After(2*w.Lease + 20*time.Second):
		w.Fatal("a call did not return")
		return Outcome{}
	}
}

// Unlock unlocks a lease, which must succeed.
func (w *World) Unlock(l *fairlock.Lease) {
	w.Helper()
	w.NoError(l.Unlock(context.Background()))
}

// NoError fails the test on an error.
func (w *World) NoError(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected: %v", err)
	}
}

// Is fails the test unless err is the wanted one.
func (w *World) Is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("got %v, want %v", err, want)
	}
}

// That fails the test unless the condition holds.
func (w *World) That(holds bool, format string, args ...any) {
	w.Helper()
	if !holds {
		w.Fatalf(format, args...)
	}
}

// keys returns all keys on the server.
func (w *World) keys(ctx context.Context) []string {
	cluster, ok := w.admin.(*redis.ClusterClient)
	if !ok {
		return w.admin.Keys(ctx, "*").Val()
	}
	var mu sync.Mutex // guards all
	var all []string
	w.NoError(cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	}))
	return all
}

// nothingStays fails unless the server is left with only token keys, and marks that expire.
func (w *World) nothingStays() {
	w.Helper()
	ctx := context.Background()
	w.Until("records and lines gone", func() bool {
		for _, key := range w.keys(ctx) {
			if strings.Contains(key, ":lock:") || strings.Contains(key, ":queue:") {
				return false
			}
			if strings.Contains(key, ":waiters:") && w.admin.ZCount(ctx, key, "0", "+inf").Val() > 0 {
				return false
			}
		}
		return true
	})
}
