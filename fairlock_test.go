// Package fairlock_test is the acceptance of the library: one test for each promise of the README,
// in its order and its words. Each test runs on a server inside the process and, where there is
// one, on a real Redis. The rooms of test/ have the tests of all other promises, and try these ones
// in a thousand kinds of trouble.
package fairlock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
)

func TestMain(m *testing.M) {
	workers.Main()           // this program, run again, is also the processes of the fourth promise
	goleak.VerifyTestMain(m) // no test leaves a goroutine behind
}

// onBothServers runs a test on a server inside the process and on a real Redis.
func onBothServers(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server, err := embedded.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		test(t, server.Addr())
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Addr())
	})
}

// connect makes a client and a Locker, as a process would have. Both end with the test.
func connect(t *testing.T, addr string, options ...fairlock.Option) (*fairlock.Locker, *redis.Client) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	locker := fairlock.New(rdb, append(options, quiet)...)
	t.Cleanup(func() {
		_ = locker.Close() // it never fails
		_ = rdb.Close()    // the test may have closed it
	})
	return locker, rdb
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !poll.Until(20*time.Second, holds) {
		t.Fatalf("waited in vain until %s", what)
	}
}

func inspect(t *testing.T, locker *fairlock.Locker, name string) *fairlock.State {
	t.Helper()
	state, err := locker.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestNoTwoLeasesOfDifferentOwnersTrustALockAtTheSameInstant(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		var trusting atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			locker, _ := connect(t, addr)
			all.Go(func() {
				for range 25 {
					lease, err := locker.Lock(ctx, "x")
					if err != nil {
						t.Error(err)
						return
					}
					if trusting.Add(1) != 1 {
						t.Error("two have the lock")
					}
					time.Sleep(time.Millisecond)
					trusting.Add(-1)
					if err := errors.Join(lease.Err(), lease.Unlock(ctx)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()

		// A holder that does not renew its lock stops trusting it before another one has it.
		idle, _ := connect(t, addr)
		next, _ := connect(t, addr)
		first, err := idle.Lock(ctx, "y", fairlock.LeaseFor(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		second, err := next.Lock(ctx, "y")
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(first.Err(), fairlock.ErrLost) || first.Context().Err() == nil {
			t.Errorf("the next one has the lock, and the first says %v", first.Err())
		}
		if err := second.Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestGrantsFollowTheOrderOfArrival(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		const calls = 12
		ctx := t.Context()
		holder, _ := connect(t, addr)
		held, err := holder.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		var lockers []*fairlock.Locker // of three processes
		for range 3 {
			locker, _ := connect(t, addr)
			lockers = append(lockers, locker)
		}
		served := make(chan int, calls)
		var all sync.WaitGroup
		defer all.Wait()
		for i := range calls {
			all.Go(func() {
				lease, err := lockers[i%3].Lock(ctx, "x")
				served <- i
				if err == nil {
					err = lease.Unlock(ctx)
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
			waitUntil(t, "it is in line", func() bool { return inspect(t, holder, "x").Waiting == i+1 })
		}
		if err := held.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range calls {
			if got := <-served; got != i {
				t.Errorf("call %d was served as number %d", got, i)
			}
		}
	})
}

func TestTokensStrictlyIncreasePerLock(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		one, _ := connect(t, addr)
		two, _ := connect(t, addr)
		last := int64(0)
		locks := func(locker *fairlock.Locker, options ...fairlock.LockOption) *fairlock.Lease {
			t.Helper()
			lease, err := locker.Lock(ctx, "x", options...)
			if err != nil {
				t.Fatal(err)
			}
			if lease.Token() <= last {
				t.Errorf("token %d comes after %d", lease.Token(), last)
			}
			last = lease.Token()
			return lease
		}
		for range 10 {
			for _, locker := range []*fairlock.Locker{one, two} {
				if err := locks(locker).Unlock(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}

		outer := locks(one)
		inner, err := one.Lock(outer.Context(), "x") // nested calls share the lock, and its token
		if err != nil || inner.Token() != outer.Token() {
			t.Fatalf("%v, token %d within %d", err, inner.Token(), outer.Token())
		}
		if err := errors.Join(inner.Unlock(ctx), outer.Unlock(ctx)); err != nil {
			t.Fatal(err)
		}

		locks(one)
		if err := two.ForceUnlock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		locks(two, fairlock.LeaseFor(300*time.Millisecond)) // after a forced ownership
		if err := locks(one).Unlock(ctx); err != nil {      // after an expired one
			t.Fatal(err)
		}
	})
}

// grantedAfter has a live waiter come last in line, behind that many others, and calls happens. It
// returns how long it then took until the waiter had the lock.
func grantedAfter(t *testing.T, addr, name string, others int, happens func()) time.Duration {
	t.Helper()
	waiter, rdb := connect(t, addr)
	result := make(chan error, 1)
	go func() {
		lease, err := waiter.Lock(t.Context(), name)
		if err == nil {
			err = lease.Unlock(t.Context())
		}
		result <- err
	}()
	waitUntil(t, "all wait", func() bool { return inspect(t, waiter, name).Waiting == others+1 })
	// Until the server has seen a waiter's subscription, it grants the waiter the lock unheard. The
	// server looks at each enter, so it knows with the first enter after the subscription.
	waitUntil(t, "the server knows that all of them listen", func() bool {
		return rdb.ZCount(t.Context(), "fairlock:waiters:{"+name+"}", "-inf", "(0").Val() == 0
	})
	happens()
	began := time.Now()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if err := waiter.Close(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func TestAFreeLockWithALiveWaiterIsGrantedThoughOthersWereKilledOrStopped(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		locker, rdb := connect(t, addr)
		granted := func(name string, others int, happens func()) time.Duration {
			t.Helper()
			return grantedAfter(t, addr, name, others, happens)
		}
		listening := func() int { return len(rdb.PubSubChannels(ctx, "*").Val()) }
		holds := func(name string) *fairlock.Lease {
			t.Helper()
			lease, err := locker.Lock(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		unlocks := func(lease *fairlock.Lease) {
			t.Helper()
			if err := lease.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
		}

		held := holds("killed waiter")
		victim := workers.Start(t, "a waiter", addr, 30*time.Second)
		victim.Lock("killed waiter", "")
		waitUntil(t, "it waits", func() bool { return inspect(t, locker, "killed waiter").Waiting == 1 })
		took := granted("killed waiter", 1, func() {
			victim.Kill() // kill -9
			waitUntil(t, "the server knows", func() bool { return listening() == 1 })
			unlocks(held)
		})
		if took > 2*time.Second { // its claim would cost 3 s, its lease 30 s
			t.Errorf("a killed waiter cost %v", took)
		}

		victim = workers.Start(t, "a holder", addr, 3*time.Second)
		victim.Lock("killed holder", "").Await(workers.Granted)
		if took := granted("killed holder", 0, victim.Kill); took > 5*time.Second {
			t.Errorf("a killed holder with a lease of 3 s cost %v", took)
		}

		if runtime.GOOS == "windows" {
			return // Windows cannot stop a process
		}
		held = holds("stopped waiter")
		stopped := workers.Start(t, "a waiter that is stopped", addr, 30*time.Second)
		stopped.Lock("stopped waiter", "")
		waitUntil(t, "it waits", func() bool { return inspect(t, locker, "stopped waiter").Waiting == 1 })
		took = granted("stopped waiter", 1, func() {
			stopped.Stop() // SIGSTOP
			unlocks(held)
		})
		if took > 18*time.Second {
			t.Errorf("a stopped waiter cost %v", took)
		}
	})
}

// test/faketime shows, in fake time, that the last key has vanished a quarter of an hour later.
func TestWhenTheLastClientIsGoneEveryKeyIsBoundToVanish(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		holder, holders := connect(t, addr, fairlock.WithLease(2*time.Second))
		waiter, waiters := connect(t, addr, fairlock.WithLease(2*time.Second))
		observer, rdb := connect(t, addr)
		if _, err := holder.Lock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = waiter.Lock(ctx, "x") // its connections are closed meanwhile
		}()
		waitUntil(t, "somebody waits", func() bool { return inspect(t, observer, "x").Waiting == 1 })
		if err := errors.Join(holders.Close(), waiters.Close()); err != nil { // without a farewell
			t.Fatal(err)
		}
		waitUntil(t, "the lease is over", func() bool { return inspect(t, observer, "x").Holder == nil })
		keys := rdb.Keys(ctx, "*").Val()
		if len(keys) == 0 {
			t.Error("there is nothing that could vanish")
		}
		for _, key := range keys {
			longest := 16*time.Minute + 2*2*time.Second
			if key == "fairlock:protocol" { // no lock's: it says which versions may share them
				longest = 90 * 24 * time.Hour
			}
			if left := rdb.PTTL(ctx, key).Val(); left <= 0 || left > longest {
				t.Errorf("%s is there for another %v", key, left)
			}
		}
		_ = waiter.Close() // it never fails
		<-ended
	})
}

func TestUnlockByAnyoneButAHolderChangesNothingAndAnExpiredLeaseIsNoCleanUnlock(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		one, _ := connect(t, addr)
		two, _ := connect(t, addr)
		first, err := one.Lock(ctx, "x", fairlock.LeaseFor(500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		second, err := two.Lock(ctx, "x") // when the first lease is over
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Unlock(ctx); !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("Unlock of an expired lease says %v", err)
		}
		if holder := inspect(t, one, "x").Holder; second.Err() != nil || holder == nil || holder.Token != second.Token() {
			t.Fatalf("that cost another one its lock: %v, %+v", second.Err(), holder)
		}
		if err := second.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
		third, err := one.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Unlock(ctx); !errors.Is(err, fairlock.ErrNotHeld) {
			t.Errorf("Unlock of what was unlocked says %v", err)
		}
		if holder := inspect(t, two, "x").Holder; third.Err() != nil || holder == nil || holder.Token != third.Token() {
			t.Fatalf("that cost another one its lock: %v, %+v", third.Err(), holder)
		}
		if err := third.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMain looks for goroutines.
func TestNoPathLeavesATicketASubscriptionOrAConnectionBehind(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		observer, rdb := connect(t, addr)
		before := connections(t, rdb)
		had, gaveUp := new(atomic.Int32), new(atomic.Int32)
		var all sync.WaitGroup
		for range 4 {
			locker, client := connect(t, addr)
			var users sync.WaitGroup
			for i := range 20 {
				users.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Millisecond)
					defer cancel()
					lease, err := locker.Lock(ctx, "x")
					switch {
					case err == nil:
						had.Add(1)
						time.Sleep(2 * time.Millisecond)
						err = lease.Unlock(ctx) // ctx may have ended; then Unlock waits for a second
						if errors.Is(err, context.DeadlineExceeded) {
							err = lease.Unlock(t.Context()) // waits for the outcome
						}
					case errors.Is(err, context.DeadlineExceeded):
						gaveUp.Add(1)
						err = nil
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Go(func() {
				users.Wait()
				if err := errors.Join(locker.Close(), client.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		t.Logf("%d had the lock, %d gave up", had.Load(), gaveUp.Load())
		if state := inspect(t, observer, "x"); state.Holder != nil || state.Waiting != 0 {
			t.Errorf("there stays %+v", state)
		}
		waitUntil(t, "no subscription is left", func() bool { return len(rdb.PubSubChannels(t.Context(), "*").Val()) == 0 })
		waitUntil(t, "no connection is left", func() bool { return connections(t, rdb) <= before })
	})
}

// connections returns how many connections the server has. The embedded server cannot tell: 0.
func connections(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	return strings.Count(rdb.ClientList(t.Context()).Val(), " laddr=")
}

func TestARequestThatIsExecutedTwiceOrSecondsLateIsTheSameAsOnceInTimeOrNotAtAll(t *testing.T) {
	onBothServers(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		for _, late := range []bool{false, true} {
			one, rdb := connect(t, addr)
			two, others := connect(t, addr)
			network := &badNetwork{late: late}
			rdb.AddHook(network)
			last := int64(0)
			for range 10 {
				lease, err := one.Lock(ctx, "x")
				if err != nil {
					t.Fatal(err)
				}
				if state := inspect(t, two, "x"); state.Holder == nil || state.Holder.Token != lease.Token() || state.Waiting > 0 || lease.Token() <= last {
					t.Fatalf("after token %d it has %d: %+v", last, lease.Token(), state)
				}
				last = lease.Token()
				if err := lease.Unlock(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
			if network.disturbed < 20 {
				t.Errorf("only %d requests were disturbed", network.disturbed)
			}

			lease, err := two.Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			for _, request := range network.delayed {
				others.Do(ctx, request...) // nobody waits for the answer
			}
			state := inspect(t, two, "x")
			if lease.Err() != nil || state.Holder == nil || state.Holder.Token != lease.Token() || state.Waiting > 0 {
				t.Errorf("late requests cost somebody else the lock: %v, %+v", lease.Err(), state)
			}
			if err := lease.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if state := inspect(t, two, "x"); state.Holder != nil || state.Waiting > 0 {
				t.Errorf("late requests hold the lock or wait for it: %+v", state)
			}
		}
	})
}

// badNetwork is a hook for go-redis. Every other request that calls a script gets no answer, so the
// library repeats it. Such a request was executed, so its repetition is the second execution. Or,
// if late is set, it is delayed until the test executes it.
type badNetwork struct {
	late bool

	mu        sync.Mutex // guards all below
	requests  int
	disturbed int
	delayed   [][]any
}

func (n *badNetwork) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *badNetwork) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (n *badNetwork) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch {
		case !n.disturbs(cmd):
			return next(ctx, cmd)
		case n.late:
			return os.ErrDeadlineExceeded
		default:
			_ = next(ctx, cmd)
			return io.ErrUnexpectedEOF
		}
	}
}

func (n *badNetwork) disturbs(cmd redis.Cmder) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cmd.Name() != "evalsha" {
		return false
	}
	n.requests++
	if n.requests%2 == 0 {
		return false
	}
	n.disturbed++
	if n.late {
		n.delayed = append(n.delayed, slices.Clone(cmd.Args()))
	}
	return true
}
