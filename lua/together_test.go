package lua

import (
	"context"
	"fmt"
	"net"
	"sync"
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
	_, _ = together.begin(&together.others, all[0])
	b, sends := together.begin(&together.others, all[1])
	equal(t, "the second of the others shares", b != nil && sends, true)
	b, sends = together.begin(&together.prompt, all[2])
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

func TestManyAtOnceAreAllAnswered(t *testing.T) {
	s := onRedis(t)
	server := NewServer(s.rdb, "w:", "a")
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			keys := keysOf(t, fmt.Sprint(i))
			for n := range 50 {
				ticket := fmt.Sprintf("a:%d:30000::", 1+n*64+i)
				answer, err := server.Enter(ctx, keys, Enter{Try: true, Lease: usual, Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
				if err != nil || answer.Tickets[0].Status != Granted {
					t.Errorf("enter: %+v, %v", answer, err)
					return
				}
				left, err := server.Leave(ctx, keys, []LeaveTicket{{Ticket: parsed(ticket), Token: answer.Tickets[0].Grant.Token}})
				if err != nil || left.Were[0] != Held {
					t.Errorf("leave: %+v, %v", left, err)
					return
				}
			}
		})
	}
	all.Wait()
}
