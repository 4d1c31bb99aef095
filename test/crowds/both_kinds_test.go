package crowds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// These tests hold for both kinds of lock, where a promise takes many connections or a server that
// dies. test/conformance has the other promises.

// site is a server for Lockers of one kind.
type site struct {
	*testing.T
	server *redistest.Server
	admin  *redis.Client
	kind   world.Kind
	record string // the key of x's record
}

// onEachKind runs the test for both kinds, and with each of these sets of server arguments if there
// are any. All runs go on at the same time. In the end nothing may be left.
func onEachKind(t *testing.T, servers map[string][]string, test func(s *site)) {
	t.Helper()
	if len(servers) == 0 {
		servers = map[string][]string{"": nil}
	}
	tests := make(map[string]func(*testing.T))
	for what, args := range servers {
		run := func(kind world.Kind, record string) func(*testing.T) {
			return func(t *testing.T) {
				server := redistest.Start(t, args...)
				s := &site{t, server, server.Client(t), kind, record}
				test(s)
				if !t.Failed() {
					nothingStays(t, s.admin)
				}
			}
		}
		tests["fair"+what] = run(world.Fair, "fairlock:lock:{x}")
		tests["plain"+what] = run(world.Plain, "fairlock:plain:lock:{x}")
	}
	world.Together(t, tests)
}

// locker makes a Locker with a client of its own. end ends both, and with them the subscription.
func (s *site) locker(lease time.Duration, change ...func(*redis.Options)) (l conformance.Locker, end func()) {
	s.Helper()
	l = s.kind(s.server.Client(s.T, change...), fairlock.WithLease(lease), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	return l, sync.OnceFunc(func() {
		if err := l.Close(); err != nil {
			s.Error(err)
		}
	})
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) until(what string, holds func() bool) {
	s.Helper()
	world.UntilWithin(s, world.Patience, what, holds)
}

// waits has n calls of Lock wait for x, each of a Locker of its own. end closes those Lockers.
func (s *site) waits(lease time.Duration, n int) (line []<-chan conformance.Outcome, end func()) {
	s.Helper()
	var ends []func()
	for range n {
		l, end := s.locker(lease)
		ends = append(ends, end)
		line = append(line, s.wait(context.Background(), l))
	}
	return line, func() {
		for _, end := range ends {
			end()
		}
	}
}

// wait has a call of Lock wait for x.
func (s *site) wait(ctx context.Context, l conformance.Locker) <-chan conformance.Outcome {
	s.Helper()
	queued, outcome := make(chan struct{}, 1), make(chan conformance.Outcome, 1)
	go func() {
		lease, err := l.Lock(ctx, "x", fairlock.OnQueued(func(int) {
			select {
			case queued <- struct{}{}:
			default:
			}
		}))
		outcome <- conformance.Outcome{Lease: lease, Err: err}
	}()
	select {
	case <-queued:
	case o := <-outcome:
		s.Fatalf("it did not wait: %+v", o)
	}
	return outcome
}

// serve fails unless all calls get the lock, one after the other.
func (s *site) serve(line []<-chan conformance.Outcome) {
	s.Helper()
	var inside atomic.Int32
	var all sync.WaitGroup
	for _, c := range line {
		all.Go(func() {
			select {
			case o := <-c:
				if o.Err != nil {
					s.Error(o.Err)
					return
				}
				if inside.Add(1) != 1 || o.Lease.Err() != nil {
					s.Errorf("two have the lock, or %v", o.Lease.Err())
				}
				inside.Add(-1)
				if err := o.Lease.Unlock(context.Background()); err != nil {
					s.Error(err)
				}
			case <-time.After(world.Patience):
				s.Error("somebody who waits is not served")
			}
		})
	}
	all.Wait()
}

// renewed returns when renewals have moved the deadline by more than two leases.
func (s *site) renewed(l *fairlock.Lease, lease time.Duration) {
	s.Helper()
	first := l.Deadline()
	s.until("it is renewed", func() bool { return l.Err() != nil || l.Deadline().Sub(first) > 2*lease })
	s.must(l.Err())
}

// lost returns when the holder knows that its lock is lost.
func (s *site) lost(l *fairlock.Lease) {
	s.Helper()
	select {
	case <-l.Done():
	case <-time.After(world.Patience):
	}
	if !errors.Is(l.Err(), fairlock.ErrLost) {
		s.Errorf("the holder says %v", l.Err())
	}
}

func TestEverySuccessOfTenThousandTryLocksOfFairAndPlainLocksIsExclusiveAndTheLastOneIsRenewed(t *testing.T) {
	const calls, goroutines, lease = 10_000, 16, world.CalmLease
	onEachKind(t, nil, func(s *site) {
		l, end := s.locker(lease)
		defer end()
		var called atomic.Int64
		var inside atomic.Int32
		var all sync.WaitGroup
		successes := 0 // guarded by the lock
		once := func() error {
			outer, err := l.TryLock(context.Background(), "x")
			if errors.Is(err, fairlock.ErrHeld) {
				return nil
			}
			if err != nil {
				return err
			}
			if inside.Add(1) != 1 {
				return errors.New("two have the lock")
			}
			n := successes
			inner, err := l.TryLock(outer.Context(), "x")
			if err != nil {
				return err
			}
			if inner.Token() != outer.Token() || inner.Depth() != 2 {
				return errors.New("the re-entry is another hold")
			}
			successes = n + 1
			if err := outer.Unlock(context.Background()); err != nil {
				return err
			}
			if inside.Add(-1) != 0 {
				return errors.New("two have the lock")
			}
			return inner.Unlock(context.Background())
		}
		for range goroutines {
			all.Go(func() {
				for called.Add(1) <= calls {
					if err := once(); err != nil {
						s.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		s.Logf("%d of %d calls had the lock", successes, calls)
		if successes == 0 {
			s.Error("nobody ever had the lock")
		}
		last, err := l.TryLock(context.Background(), "x")
		s.must(err)
		s.renewed(last, lease)
		s.must(last.Unlock(context.Background()))
		end()
	})
}

func TestAHundredClientsOfAFairOrPlainLockCountToAHundred(t *testing.T) {
	const clients = 100
	onEachKind(t, nil, func(s *site) {
		counter := 0 // guarded by the lock
		begin := make(chan struct{})
		var all sync.WaitGroup
		for range clients {
			l, end := s.locker(engine.DefaultLease)
			all.Go(func() {
				defer end()
				<-begin
				if err := l.Do(context.Background(), "x", func(context.Context, *fairlock.Lease) error {
					n := counter
					runtime.Gosched()
					counter = n + 1
					return nil
				}); err != nil {
					s.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		if counter != clients {
			s.Errorf("they counted to %d", counter)
		}
	})
}

// killed is what a killed server may come back with.
var killed = map[string][]string{
	", with its data":    {"--appendonly", "yes", "--appendfsync", "always"},
	", without its data": nil,
}

func TestTheHolderOfAFairOrPlainLockKeepsItThroughAServerThatIsKilledAndSoonBack(t *testing.T) {
	onEachKind(t, killed, func(s *site) {
		const lease = 10 * time.Second
		l, end := s.locker(lease)
		defer end()
		held, err := l.Lock(context.Background(), "x")
		s.must(err)
		line, endAll := s.waits(lease, 3)
		defer endAll()
		ends := s.admin.PExpireTime(context.Background(), s.record).Val()
		s.server.Kill()
		s.until("a renewal has failed", func() bool { return time.Until(held.Deadline()) < lease/2 })
		s.server.Restart()
		s.until("the holder has renewed it", func() bool {
			now := s.admin.PExpireTime(context.Background(), s.record)
			return now.Err() == nil && now.Val() > ends && s.admin.HGet(context.Background(), s.record, "owner").Val() == held.Owner()
		})
		s.must(held.Err())
		for _, c := range line {
			if len(c) > 0 {
				s.Fatal("two have the lock")
			}
		}
		s.must(held.Unlock(context.Background()))
		s.serve(line)
		end()
		endAll()
	})
}

func TestTheHolderOfAFairOrPlainLockLearnsThatItIsLostWhileTheServerIsDeadAndLaterAllGoOn(t *testing.T) {
	onEachKind(t, killed, func(s *site) {
		const lease = world.CalmLease
		l, end := s.locker(lease)
		defer end()
		held, err := l.Lock(context.Background(), "x")
		s.must(err)
		line, endAll := s.waits(lease, 3)
		defer endAll()
		s.server.Kill()
		s.lost(held)
		if err := held.Unlock(context.Background()); !errors.Is(err, fairlock.ErrLost) {
			s.Errorf("Unlock says %v", err)
		}
		s.server.Restart()
		s.serve(line)
		var again *fairlock.Lease
		// The pooled connections are dead, and each one is noticed once.
		s.until("who lost it has it again", func() bool {
			again, _ = l.Lock(context.Background(), "x")
			return again != nil
		})
		if again.Token() <= held.Token() {
			s.Errorf("token %d after %d", again.Token(), held.Token())
		}
		s.renewed(again, lease)
		s.must(again.Unlock(context.Background()))
		end()
		endAll()
	})
}

func TestCallsOfAFairOrPlainLockFailOnADeadServerAndWaitsEndWithTheirContext(t *testing.T) {
	onEachKind(t, nil, func(s *site) {
		a, endA := s.locker(world.CalmLease)
		defer endA()
		b, endB := s.locker(world.CalmLease)
		defer endB()
		held, err := a.Lock(context.Background(), "x")
		s.must(err)
		ctx, cancel := context.WithCancel(context.Background())
		waits := s.wait(ctx, b)
		s.server.Kill()
		soon, stop := context.WithTimeout(context.Background(), world.Patience)
		defer stop()
		for what, call := range map[string]func() error{
			"Lock":        func() error { _, err := b.Lock(soon, "y"); return err },
			"TryLock":     func() error { _, err := b.TryLock(soon, "y"); return err },
			"Inspect":     func() error { _, err := b.Inspect(soon, "y"); return err },
			"ForceUnlock": func() error { return b.ForceUnlock(soon, "y") },
		} {
			err := call()
			for _, wrong := range []error{nil, fairlock.ErrHeld, fairlock.ErrNotHeld, context.DeadlineExceeded} {
				if errors.Is(err, wrong) {
					s.Errorf("%s on a dead server says %v", what, err)
				}
			}
		}
		if len(waits) > 0 {
			s.Error("the wait has ended by itself")
		}
		cancel()
		select {
		case o := <-waits:
			if !errors.Is(o.Err, context.Canceled) {
				s.Errorf("the wait ended with %+v", o)
			}
		case <-time.After(world.Soon):
			s.Error("the wait does not end with its context")
		}
		s.lost(held)
		s.server.Restart()
		endA()
		endB()
	})
}

func TestTwentyContendedFairOrPlainLocksTakeAPoolOfOneOrTwoAndOneSubscriptionThatEndsWithTheLocker(t *testing.T) {
	const locks, waiters, rounds = 20, 3, 3
	onEachKind(t, nil, func(s *site) {
		holder, endHolder := s.locker(engine.DefaultLease)
		defer endHolder()
		var held []*fairlock.Lease
		for i := range locks {
			lease, err := holder.Lock(context.Background(), fmt.Sprint(i))
			s.must(err)
			held = append(held, lease)
		}
		one, endOne := s.locker(engine.DefaultLease, func(o *redis.Options) { o.PoolSize = 1 })
		defer endOne()
		two, endTwo := s.locker(engine.DefaultLease, func(o *redis.Options) { o.PoolSize = 2 })
		defer endTwo()
		var counters [locks]int // each guarded by its lock
		count := func(l conformance.Locker, i int, queued func(int)) {
			for range rounds {
				if err := l.Do(context.Background(), fmt.Sprint(i), func(context.Context, *fairlock.Lease) error {
					n := counters[i]
					runtime.Gosched()
					counters[i] = n + 1
					return nil
				}, fairlock.OnQueued(queued)); err != nil {
					s.Error(err)
				}
			}
		}
		var queued atomic.Int32
		var all sync.WaitGroup
		for i := range locks * waiters * 2 {
			first := sync.OnceFunc(func() { queued.Add(1) })
			all.Go(func() { count([]conformance.Locker{one, two}[i%2], i/2%locks, func(int) { first() }) })
		}
		s.until("all wait", func() bool { return queued.Load() == locks*waiters*2 })
		s.until("both are subscribed", func() bool { return world.Subscriptions(s.admin) == 2 })
		for _, lease := range held {
			s.must(lease.Unlock(context.Background()))
		}
		all.Wait()
		for i, n := range counters {
			if n != 2*waiters*rounds {
				s.Errorf("lock %d: %d increments", i, n)
			}
		}
		if n := world.Subscriptions(s.admin); n != 2 {
			s.Errorf("%d connections are subscribed", n)
		}
		endOne()
		endTwo()
		s.until("nothing is subscribed", func() bool {
			return len(s.admin.PubSubChannels(context.Background(), "*").Val()) == 0 && world.Subscriptions(s.admin) == 0
		})
		endHolder()
	})
}

func TestTheZeroLeaseHoldsNothing(t *testing.T) {
	var zero fairlock.Lease
	if err := zero.Unlock(context.Background()); !errors.Is(err, fairlock.ErrNotHeld) {
		t.Errorf("Unlock says %v", err)
	}
	if err := zero.Err(); !errors.Is(err, fairlock.ErrNotHeld) {
		t.Errorf("Err is %v", err)
	}
	if err := zero.Extend(context.Background(), time.Second); !errors.Is(err, fairlock.ErrNotHeld) {
		t.Errorf("Extend says %v", err)
	}
	zero.Detach()
	if zero.Token() != 0 || zero.Depth() != 0 || zero.Owner() != "" || zero.Name() != "" || zero.Context().Err() == nil {
		t.Error("it holds something")
	}
}
