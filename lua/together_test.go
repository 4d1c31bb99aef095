package lua

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelines counts the evals in each pipeline.
type pipelines struct{ sizes []int }

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "eval" {
			p.sizes = append(p.sizes, len(cmds))
		}
		return next(ctx, cmds)
	}
}

// asking returns n requests. Each asks for its own number.
func asking(n int) (all []redis.Cmder, requests []once) {
	for i := range n {
		requests = append(requests, newOnce(ctx, []any{"eval", "return tonumber(ARGV[1])", 0, i}))
		all = append(all, requests[i])
	}
	return all, requests
}

func TestRequestsThatComeTogetherShareAWriteAndHaveEachItsOwnAnswer(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		writes := new(pipelines)
		s.rdb.AddHook(writes)
		all, requests := asking(mostTogether)
		must(t, send(ctx, s.rdb, all))
		for i, r := range requests {
			got, err := r.Int()
			must(t, err)
			equal(t, "answer", got, i)
		}
		equal(t, "writes", fmt.Sprint(writes.sizes), fmt.Sprint([]int{mostTogether}))
	})
}

func TestARequestThatWantsAPromptAnswerIsKeptByNoneThatDoesNot(t *testing.T) {
	var together together
	all, _ := asking(3)
	_, _ = together.begin(&together.others, all[0], false)
	b, sends := together.begin(&together.others, all[1], false)
	equal(t, "the second of the others shares", b != nil && sends, true)
	b, sends = together.begin(&together.prompt, all[2], false)
	equal(t, "the first in haste goes alone", b == nil && sends, true)
}

func TestAConnectionThatFailsLeavesAllThatShareItUnanswered(t *testing.T) {
	addr, scripts := listener(t, func(conn net.Conn, _ string) { _ = conn.Close() })
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second})
	defer c.Close()
	all, requests := asking(3)
	_ = send(ctx, c, all) // the error of the first request
	for _, r := range requests {
		equal(t, "unanswered", Unanswered(r.Err()), true)
	}
	if n := scripts.Load(); n > 3 {
		t.Errorf("%d requests were sent again", n-3)
	}
}

func TestOneGoroutineSendsForAllCallersThatAreReadyTogether(t *testing.T) {
	server := NewServer(single(t).Client(t), "w:", "a")
	var all, senders sync.WaitGroup
	var spawned atomic.Int64
	server.Spawn(func(f func()) { spawned.Add(1); senders.Go(f) }, nil)
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(i int) {
		soon, _ := server.Prompt(under, time.Minute)
		reply, err := soon.send(under, []any{"eval", "return tonumber(ARGV[1])", 0, i}, soon.together)
		equal(t, "answer", fmt.Sprint(reply, err), fmt.Sprint(i, " <nil>"))
	}
	ask(0)
	senders.Wait()
	equal(t, "senders for one", spawned.Load(), 1)

	const callers = 5
	together, others := server.together, &server.together.others
	b, _ := together.begin(others, newOnce(ctx, []any{"ping"}), true) // the test is the sender
	for i := range callers {
		all.Go(func() { ask(i) })
	}
	for ready := 0; ready <= callers; time.Sleep(time.Millisecond) {
		together.mu.Lock()
		ready = len(b.All)
		together.mu.Unlock()
	}
	must(t, send(ctx, together.rdb, together.gather(others, b)))
	close(b.Answered)
	together.end(others)
	all.Wait()
	equal(t, "senders for five more", spawned.Load(), 1)
}

func TestASharedRequestEndsBeforeTheContextOfEachCallerAndWithNoneOfThem(t *testing.T) {
	at := time.Now().Add(patience)
	for _, c := range []struct {
		name     string
		obeyed   bool
		deadline time.Duration // after at; -1 s: none
		want     bool
	}{
		{"a later deadline", true, time.Second, true},
		{"the same", true, 0, true},
		{"a sooner one", true, -time.Millisecond, false},
		{"one that is not obeyed", false, time.Second, false},
	} {
		under, cancel := context.WithDeadline(ctx, at.Add(c.deadline))
		p := &prompt{Context: under, obeyed: c.obeyed}
		equal(t, c.name, p.outlasts(at), c.want)
		cancel()
		shared := p.forAll(at)
		end, ok := shared.Deadline()
		equal(t, "deadline", ok && end.Equal(at), true)
		equal(t, "ended with its caller", shared.Err(), nil)
	}
	under, cancel := context.WithCancel(ctx)
	equal(t, "no deadline", (&prompt{Context: under, obeyed: true}).outlasts(at), true)
	equal(t, "not prompt", (*prompt)(nil).outlasts(at), false)
	cancel()
	request := newOnce(ctx, []any{"ping"})
	err := (&together{}).process(under, &prompt{Context: under, obeyed: true}, request)
	equal(t, "sent for a caller that has gone", errors.Is(err, context.Canceled) && err == request.Err(), true)
}

func TestManyAtOnceAreAllAnswered(t *testing.T) {
	s := onRedis(t)
	obedient := func(o *redis.Options) { o.ContextTimeoutEnabled = true }
	ending, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	t.Run("from goroutines of their own", func(t *testing.T) {
		server := NewServer(s.rdb, "w:", "a")
		manyAtOnce(t, func(f func(*Server)) { f(server) })
	})
	for name, c := range map[string]*redis.Client{
		"by one for many": single(t).Client(t), "by callers": single(t).Client(t, obedient),
	} {
		t.Run(name, func(t *testing.T) {
			server, late := NewServer(c, "w:", "a"), atomic.Int64{}
			manyAtOnce(t, func(f func(*Server)) {
				soon, ok := server.Prompt(ending, time.Minute)
				if !ok { // a busy machine: the server was silent for a moment
					late.Add(1)
					soon = server
				}
				f(soon)
			})
			if n := late.Load(); n == 64*50 {
				t.Error("no request was prompt")
			}
		})
	}
}

func manyAtOnce(t *testing.T, with func(func(*Server))) {
	t.Helper()
	one := func(server *Server, keys Keys, ticket string) error {
		answer, err := server.Enter(ctx, keys, Enter{Try: true, Spare: usual, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
		if err != nil {
			return err
		}
		if answer.Tickets[0].Status != Granted {
			t.Errorf("enter: %+v", answer)
		}
		left, err := server.Leave(ctx, keys, []LeaveTicket{{Ticket: parsed(ticket), Token: answer.Tickets[0].Grant.Token}})
		if err == nil && left.Were[0] != Held {
			t.Errorf("leave: %+v", left)
		}
		return err
	}
	began := time.Now()
	var all sync.WaitGroup
	var unanswered atomic.Int64
	for i := range 64 {
		all.Go(func() {
			// What was not answered in another subtest may have left a lock.
			keys := keysOf(t, fmt.Sprint(t.Name(), i))
			for n := range 50 {
				with(func(server *Server) {
					err := one(server, keys, fmt.Sprintf("a:%d:30000::", 1+n*64+i))
					if Unanswered(err) { // that happens if the machine is busy, but to few
						unanswered.Add(1)
						keys = keysOf(t, fmt.Sprint(t.Name(), i, " after ", n))
					} else if err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
	all.Wait()
	// All that are under way, twice. After a stall that loses them, none is prompt for slowFor.
	if n := unanswered.Load(); n > 64*int64(2+time.Since(began)/slowFor) {
		t.Errorf("%d requests were not answered", n)
	}
}
