package fairlock

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// scripts is a hook that counts the tickets without a place for which an enter asks. It may do
// something else in place of the next script.
type scripts struct {
	mu      sync.Mutex // guards the rest
	asked   int
	instead func() error
}

func (s *scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		args, unplaced := cmd.Args(), 0
		for i := 15; i+3 < len(args); i += 4 { // as in lua.Server.Enter
			if args[i+1] == int64(0) {
				unplaced++
			}
		}
		s.mu.Lock()
		s.asked += unplaced
		instead := s.instead
		s.instead = nil
		s.mu.Unlock()
		if instead != nil {
			return instead()
		}
		return next(ctx, cmd)
	}
}

// did checks for how many tickets was asked.
func (s *scripts) did(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != want {
		t.Errorf("asked for %d, want %d", s.asked, want)
	}
}

// crowd is a Locker whose scripts are counted, and a lock that another has, with two waiters.
type crowd struct {
	*testing.T
	*Locker
	scripts *scripts
	rdb     *redis.Client
	other   *Locker
	holder  *Lease
}

// crowds runs a test on the embedded server and on a real one.
func crowds(t *testing.T, test func(c *crowd)) {
	for name, start := range map[string]func(t *testing.T) (addr string){
		"embedded": func(t *testing.T) string { return miniredis.RunT(t).Addr() },
		"real":     func(t *testing.T) string { return redistest.Start(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			addr := start(t)
			mine, others := redis.NewClient(&redis.Options{Addr: addr}), redis.NewClient(&redis.Options{Addr: addr})
			defer mine.Close()
			defer others.Close()
			c := &crowd{T: t, scripts: new(scripts), Locker: New(mine), rdb: others, other: New(others)}
			defer c.other.Close()
			defer c.Close()
			c.holder, _ = c.other.Lock(t.Context(), "x", WithOwner("somebody"))
			if c.holder == nil {
				t.Fatal("no lock")
			}
			ctx, cancel := context.WithCancel(t.Context())
			var two sync.WaitGroup
			for n := 1; n <= 2; n++ {
				queued := make(chan struct{})
				two.Go(func() { _, _ = c.other.Lock(ctx, "x", OnQueued(func(int) { close(queued) })) })
				<-queued
			}
			mine.AddHook(c.scripts)
			test(c)
			cancel()
			two.Wait()
			runtime.KeepAlive(c.holder)
		})
	}
}

// come begins n calls that have yet to ask.
func (c *crowd) come(n int, r engine.Request) (all []*attempt) {
	c.Helper()
	r.Lease = c.core.Settings.Lease
	keys, _ := lua.NewKeys("fairlock", "x")
	for range n {
		a, err := c.begin(&engine.Call{Name: "x", Keys: keys, Request: r, Began: time.Now()})
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// ask has the calls ask together, and returns when all requests were answered.
func (c *crowd) ask(all []*attempt) {
	c.Helper()
	with, sends := c.arrive(all[0])
	if with != nil || !sends {
		c.Fatal("others are under way")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // of the user's panic, which the caller would see
		c.arriving(c.Context(), c.core.Server, all[0], slices.Clone(all))
	}()
	<-ended
	if !poll.Until(time.Minute, func() bool { return !c.under() }) {
		c.Fatal("a request does not end")
	}
}

// under reports whether first requests are under way.
func (c *crowd) under() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrivals) > 0
}

// waits reports whether one of the calls waits.
func (c *crowd) waits(calls []*attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(calls, func(a *attempt) bool { return a.Phase == rules.Waiting })
}

// all checks that all calls ended with that error: nil is for those that wait.
func (c *crowd) all(what string, calls []*attempt, want error) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range calls {
		_, known := c.attempts[a.ticket.Counter]
		waits, left := a.Phase == rules.Waiting, a.Phase == rules.Gone // else its leave is under way, or was
		if waits != (want == nil) || waits && !known || left && known || !errors.Is(a.err, want) {
			c.Fatalf("%s, call %d of %d: phase %v, %v, want %v", what, i, len(calls), a.Phase, a.err, want)
		}
	}
}

func bounded(n int) engine.Request { return engine.Request{Wait: -1, MaxWaiters: n} }

func TestACrowdThatFindsTheLineFullAsksOnce(t *testing.T) {
	crowds(t, func(c *crowd) {
		calls := c.come(3*mostTogether, bounded(2))
		c.ask(calls)
		c.all("the crowd", calls, ErrQueueFull)
		c.scripts.did(c.T, mostTogether)
		if state, err := c.other.Inspect(c.Context(), "x"); err != nil || len(state.Waiters) != 2 {
			c.Errorf("waiters: %v, %v", state.Waiters, err)
		}
	})
}

func TestOnlyThoseWhomTheServerWouldTurnAwayAreTurnedAwayUnasked(t *testing.T) {
	crowds(t, func(c *crowd) {
		crowd := c.come(mostTogether, bounded(2))
		smaller, same, larger := c.come(1, bounded(1)), c.come(1, bounded(2)), c.come(1, bounded(3))
		large, unbounded := c.come(1, bounded(mostInLine+1)), c.come(1, waits)
		left := c.come(1, bounded(2))
		c.mu.Lock()
		c.carryOut(left[0], left[0].GivesUp(false), context.Canceled)
		c.mu.Unlock()
		owner := c.come(1, engine.Request{Wait: -1, MaxWaiters: 2, Owner: "somebody"})
		c.ask(slices.Concat(crowd, smaller, same, larger, large, unbounded, left, owner))
		c.all("the crowd", crowd, ErrQueueFull)
		c.all("a smaller bound", smaller, ErrQueueFull)
		c.all("the same bound", same, ErrQueueFull)
		c.all("a larger bound", larger, nil)
		c.all("a bound beyond what is waited for", large, nil)
		c.all("no bound", unbounded, nil)
		c.all("one who gave up", left, context.Canceled)
		if owner[0].turn == nil {
			c.Errorf("the owner does not share its lock: %v", owner[0].err)
		}
		for _, a := range slices.Concat(larger, large, unbounded) {
			_ = c.giveUp(a, func() error { return context.Canceled })
		}
		c.core.Abandon(owner[0].turn)
	})
}

func TestACrowdGoesInUntilTheLineIsFull(t *testing.T) {
	crowds(t, func(c *crowd) {
		calls := c.come(5*mostTogether, bounded(2+mostTogether+1))
		c.ask(calls)
		c.all("the first", calls[:mostTogether+1], nil)
		c.all("the rest", calls[mostTogether+1:], ErrQueueFull)
		c.scripts.did(c.T, 2*mostTogether)
	})
}

func TestAnErrorOfTheServersIsTheWholeCrowds(t *testing.T) {
	crowds(t, func(c *crowd) {
		calls := c.come(3*mostTogether, bounded(2))
		if err := c.rdb.Set(c.Context(), calls[0].Keys.Record(), "no hash", 0).Err(); err != nil {
			c.Fatal(err)
		}
		c.ask(calls)
		if calls[0].err == nil {
			c.Fatal("no error")
		}
		c.all("the crowd", calls, calls[0].err)
		c.scripts.did(c.T, mostTogether)
	})
}

func TestACrowdWhoseRequestWasNotAnsweredAsksAgain(t *testing.T) {
	for name, fails := range map[string]func() error{
		"the connection breaks":        func() error { return io.ErrUnexpectedEOF },
		"a hook ends the goroutine":    func() error { runtime.Goexit(); return nil },
		"a context of the user panics": func() error { panic("the user's") },
	} {
		t.Run(name, func(t *testing.T) {
			crowds(t, func(c *crowd) {
				c.scripts.instead = fails
				calls := c.come(3*mostTogether, bounded(2))
				c.ask(calls)
				poll.Until(time.Minute, func() bool { return !c.waits(calls) })
				c.all("the crowd", calls, ErrQueueFull)
			})
		})
	}
}
