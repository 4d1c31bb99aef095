package lua

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/bubbles"
)

// silent returns a client of a server that reads and never answers. The client heeds contexts if it
// is obedient.
func silent(obedient bool) *redis.Client { return silentFor(4*time.Second, obedient) }

// silentFor is silent with that read timeout.
func silentFor(read time.Duration, obedient bool) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", ContextTimeoutEnabled: obedient, ReadTimeout: read, MaxRetries: 3,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			mine, its := net.Pipe()
			go func() {
				_, _ = io.Copy(io.Discard, its) // until the client closes its end
				_ = its.Close()
			}()
			return mine, nil
		},
	})
}

// stirredAt has the node's idle connections be used last at that time.
func (s *Server) stirredAt(addr string, at time.Time) {
	last := new(atomic.Int64)
	last.Store(at.UnixNano())
	s.stirred.Store(addr, last)
}

func TestAPromptRequestComesBackSoonFromASilentServerAndTheNextIsNotPrompt(t *testing.T) {
	for _, c := range []struct {
		name     string
		obedient bool
		within   time.Duration
	}{{"a client that obeys contexts", true, 100 * time.Millisecond}, {"one that goes by its read timeout", false, 4 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				rdb := silent(c.obedient)
				defer rdb.Close()
				p := NewServer(rdb, "w:", "a")
				p.stirredAt("127.0.0.1:6379", time.Now().Add(time.Hour)) // all.Wait would wait for pings
				var all sync.WaitGroup
				p.Spawn(all.Go, nil)
				soon, ok := p.Prompt(ctx, 5*time.Second)
				equal(t, "prompt", ok, true)
				_, err := soon.Inspect(ctx, keysOf(t, "x"), 0, 1) // includes the greeting of the first connection
				equal(t, "unanswered", Unanswered(err), true)
				begin := time.Now()
				_, err = soon.Inspect(ctx, keysOf(t, "x"), 0, 1)
				equal(t, "unanswered", Unanswered(err), true)
				if took := time.Since(begin); took > 3*c.within { // the connection is new and needs a greeting first
					t.Errorf("it took %v", took)
				}
				all.Wait() // a request that was left to itself fails
				_, ok = p.Prompt(ctx, 5*time.Second)
				equal(t, "prompt again", ok, false)
				time.Sleep(4900 * time.Millisecond)
				_, ok = p.Prompt(ctx, 5*time.Second)
				equal(t, "prompt after five seconds less a little", ok, false)
				time.Sleep(200 * time.Millisecond)
				_, ok = p.Prompt(ctx, 5*time.Second)
				equal(t, "prompt after five seconds", ok, true)
			})
		})
	}
}

func TestACallerSendsItselfOnlyIfItsContextIsObeyedOrHasNoEnd(t *testing.T) {
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range []struct {
		name                string
		obedient            bool
		timeout             time.Duration
		endless, withEnding bool
	}{
		{"obedient", true, 0, true, true},
		{"obedient without a read timeout", true, -1, true, true},
		{"by its read timeout", false, 3 * time.Second, true, false},
		{"without a read timeout", false, -1, false, false},
		{"with a read timeout of the limit", false, 5 * time.Second, true, false},
		{"with a longer read timeout", false, 5*time.Second + 1, false, false},
	} {
		for under, sends := range map[context.Context]bool{ctx: c.endless, ending: c.withEnding} {
			rdb := redis.NewClient(&redis.Options{ContextTimeoutEnabled: c.obedient, ReadTimeout: c.timeout})
			soon, ok := NewServer(rdb, "w:", "a").Prompt(under, 5*time.Second)
			equal(t, c.name+": the caller sends", ok && !soon.prompt.awaits, sends)
			equal(t, c.name+": else one sends for many", ok, true)
			must(t, rdb.Close())

			cluster := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: c.obedient, ReadTimeout: c.timeout})
			_, ok = NewServer(cluster, "w:", "a").Prompt(under, 5*time.Second)
			equal(t, c.name+" on a cluster, where requests are not joined", ok, sends)
			must(t, cluster.Close())
		}
	}
}

type passes struct{}

func (passes) Allow() error       { return nil }
func (passes) ReportResult(error) {}

func TestNoCallerSendsItselfThroughALimiterWhichMayKeepIt(t *testing.T) {
	for _, obedient := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{ContextTimeoutEnabled: obedient, Limiter: passes{}})
		s := NewServer(rdb, "w:", "a")
		soon, ok := s.Prompt(ctx, 5*time.Second)
		equal(t, "another goroutine sends for it", ok && soon.prompt.awaits, true)
		s.Apart()
		_, ok = s.Prompt(ctx, 5*time.Second)
		equal(t, "prompt, if requests are not joined", ok, false)
		must(t, rdb.Close())
	}
}

func TestACallerForWhomAnotherSendsIsKeptUntilItsContextEndsOrTheLimit(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		rdb := silent(false)
		defer rdb.Close()
		s := NewServer(rdb, "w:", "a")
		var all sync.WaitGroup
		s.Spawn(all.Go, nil)
		defer all.Wait()
		for _, c := range []struct {
			name           string
			context, limit time.Duration
			want           error
			again          bool
		}{
			{"context", 50 * time.Millisecond, time.Second, context.DeadlineExceeded, true},
			{"a limit that a prompt server may miss", time.Hour, 60 * time.Millisecond, ErrKept, true},
			{"limit", time.Hour, patience, ErrKept, false},
		} {
			under, cancel := context.WithTimeout(ctx, c.context)
			soon, _ := s.Prompt(under, c.limit)
			begin := time.Now()
			_, err := soon.Inspect(under, keysOf(t, "x"), 0, 1)
			equal(t, c.name+": how it ended", errors.Is(err, c.want) && Unanswered(err), true)
			equal(t, c.name+": when", time.Since(begin), min(c.context, c.limit))
			_, ok := s.Prompt(under, c.limit)
			equal(t, c.name+": prompt again", ok, c.again)
			cancel()
		}
	})
}

func TestAPromptRequestKeepsItsCallerNoLongerThanTheLimitIfItsConnectionIsNotGreetedYetEither(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		const limit = 250 * time.Millisecond
		rdb := silentFor(limit, false)
		var all sync.WaitGroup
		defer all.Wait()
		defer rdb.Close()
		for range 5 { // the first has the pool dial, and leaves the connection to the second
			s := NewServer(rdb, "w:", "a") // it is not known yet that the server is slow
			s.Spawn(all.Go, nil)
			soon, ok := s.Prompt(ctx, limit)
			equal(t, "prompt", ok, true)
			begin := time.Now()
			_, err := soon.Inspect(ctx, keysOf(t, "x"), 0, 1)
			equal(t, "unanswered", Unanswered(err), true)
			equal(t, "no longer than the limit", time.Since(begin), limit)
		}
	})
}

func TestAPromptRequestIsAnsweredLikeAnyOther(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		a := s.party("a")
		for range 3 {
			soon, ok := a.Prompt(ctx, 5*time.Second)
			equal(t, "prompt", ok, true)
			ticket := a.ticket(usual)
			answer, err := soon.Enter(ctx, s.keys, Enter{Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
			must(t, err)
			equal(t, "status", answer.Tickets[0].Status, Granted)
			left, err := soon.Leave(ctx, s.keys, []LeaveTicket{{Ticket: parsed(ticket)}})
			must(t, err)
			equal(t, "left", left.Were[0], Held)
			_, err = soon.Do(ctx, "INCRBY", s.keys.Record(), "x")
			equal(t, "an error that is answered", Answered(err), true)
		}
	})
}

func TestAPromptRequestObeysAnEarlierDeadlineAndACancellation(t *testing.T) {
	rdb := silent(true)
	t.Cleanup(func() { _ = rdb.Close() }) // nothing depends on how a connection ends
	p := NewServer(rdb, "w:", "a")
	early, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	want, _ := early.Deadline()
	soon, _ := p.Prompt(early, 0)
	at, ok := soon.prompt.Deadline()
	equal(t, "deadline", ok && at.Equal(want), true)
	late, cancel := context.WithTimeout(ctx, time.Hour)
	soon, _ = p.Prompt(late, 0)
	at, _ = soon.prompt.Deadline()
	equal(t, "soon", time.Until(at) < time.Minute, true)
	cancel()
	_, err := soon.Inspect(late, keysOf(t, "x"), 0, 1)
	equal(t, "cancelled", errors.Is(err, context.Canceled), true)
}

// counter counts the commands that pass a client's hook.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func TestAPromptRequestPassesTheHooksOfTheUsersClient(t *testing.T) {
	s := onRedis(t)
	c := single(t).Client(t)
	hook := new(counter)
	c.AddHook(hook)
	a := NewServer(c, "w:", "a")
	_, err := a.Inspect(ctx, s.keys, 0, 1)
	must(t, err)
	others := hook.n.Load()
	soon, _ := a.Prompt(ctx, 5*time.Second)
	_, err = soon.Inspect(ctx, s.keys, 0, 1)
	must(t, err)
	equal(t, "passed", hook.n.Load() > others && others > 0, true)
}

// doubter counts commands, and asks for the end of their contexts once they have been answered.
type doubter struct{ counter }

func (d *doubter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		d.n.Add(1)
		if err := next(ctx, cmd); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		default:
			return nil
		}
	}
}

func TestAPromptRequestThatWasAnsweredIsNotSentAgainWhateverAHookAsksItsContext(t *testing.T) {
	s := onRedis(t)
	c := single(t).Client(t)
	a := NewServer(c, Channels("fairlock"), "a")
	ticket := NewTicket("a", 1, usual, "", "")
	_, err := a.Enter(ctx, s.keys, Enter{Spare: usual, Tickets: []EnterTicket{{Ticket: ticket}}})
	must(t, err)
	must(t, c.ScriptLoad(ctx, leaveScript.source).Err())
	hook := new(doubter)
	c.AddHook(hook)
	soon, _ := a.Prompt(ctx, 5*time.Second)
	left, err := soon.Leave(ctx, s.keys, []LeaveTicket{{Ticket: ticket}})
	must(t, err)
	equal(t, "it was", left.Were[0], Held)
	equal(t, "requests", hook.n.Load(), int64(1))
	said, err := soon.Do(ctx, "echo", "as Redisson's scripts say it")
	must(t, err)
	equal(t, "it says", said, any("as Redisson's scripts say it"))
	equal(t, "requests", hook.n.Load(), int64(2))
}

// reading is a context that ends the goroutine when it is asked for its deadline so often.
type reading struct {
	context.Context
	left int
}

func (r *reading) Deadline() (time.Time, bool) {
	if r.left--; r.left == 0 {
		runtime.Goexit()
	}
	return r.Context.Deadline()
}

// go-redis would put the connection back on which the answer is still to come: whoever has it next
// would take that answer for its own, and have a lock that nobody gave.
func TestNobodyGetsTheAnswerToARequestWhoseContextEndsTheGoroutine(t *testing.T) {
	// answered is false on a busy machine: a prompt request has 100 ms.
	answered := func(n int) bool {
		a := NewServer(single(t).Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.PoolSize = true, 1 }), "w:", "a")
		_, err := a.Do(ctx, "ping")
		must(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if soon, ok := a.Prompt(&reading{ctx, n + 1}, 5*time.Second); ok {
				_, _ = soon.Do(ctx, "echo", "that one's")
			}
		}()
		<-done
		soon, ok := a.Prompt(ctx, 5*time.Second)
		if !ok {
			return false
		}
		reply, err := soon.Do(ctx, "echo", "its own")
		if err != nil {
			t.Log(err)
			return false
		}
		equal(t, "the answer", reply, any("its own"))
		return true
	}
	for n := range 6 {
		tries := 1
		for ; tries <= 10 && !answered(n); tries++ {
		}
		equal(t, "answered", tries <= 10, true)
	}
}
