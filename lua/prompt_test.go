package lua

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAPromptRequestComesBackSoonFromASilentServerAndTheNextIsNotPrompt(t *testing.T) {
	addr, scripts := listener(t, func(net.Conn, string) {})
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() }) // nothing depends on how a connection ends
	p := NewServer(c, "w:", "a")
	brief, ok := p.Prompt(ctx)
	equal(t, "prompt", ok, true)
	begin := time.Now()
	_, err := p.Inspect(brief, keysOf(t, "x"), 0, 1)
	if took := time.Since(begin); took > 10*time.Second {
		t.Fatalf("it took %v", took)
	}
	equal(t, "unanswered", Unanswered(err), true)
	equal(t, "requests", scripts.Load(), 1)
	_, ok = p.Prompt(ctx)
	equal(t, "prompt again", ok, false)
	p.brisk.slow.Store(time.Now().UnixNano() - 1)
	_, ok = p.Prompt(ctx)
	equal(t, "prompt after a while", ok, true)
}

func TestAPromptRequestIsAnsweredLikeAnyOther(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *site{"embedded": onMiniredis, "real": onRedis} {
		t.Run(name, func(t *testing.T) {
			s := at(t)
			a := s.party("a")
			for range 3 {
				soon, ok := a.Prompt(ctx)
				equal(t, "prompt", ok, true)
				ticket := a.ticket(usual)
				answer, err := a.Enter(soon, Enter{Keys: s.keys, Lease: usual, Tickets: []EnterTicket{{Ticket: ticket}}})
				must(t, err)
				equal(t, "status", answer.Tickets[0].Status, Granted)
				left, err := a.Leave(soon, Leave{s.keys, []LeaveTicket{{Ticket: ticket}}})
				must(t, err)
				equal(t, "left", left.States[0], Held)
			}
			_, err := a.Do(ctx, "INCRBY", "k", "x")
			equal(t, "an error that is answered", Answered(err), true)
		})
	}
}

func TestAPromptRequestObeysAnEarlierDeadlineAndACancellation(t *testing.T) {
	p := onMiniredis(t).deaf("a")
	early, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	want, _ := early.Deadline()
	soon, _ := p.Prompt(early)
	at, ok := soon.Deadline()
	equal(t, "deadline", ok && at.Equal(want), true)
	late, cancel := context.WithTimeout(ctx, time.Hour)
	soon, _ = p.Prompt(late)
	at, _ = soon.Deadline()
	equal(t, "soon", time.Until(at) < time.Minute, true)
	cancel()
	_, err := p.Inspect(soon, keysOf(t, "x"), 0, 1)
	equal(t, "cancelled", errors.Is(err, context.Canceled), true)
}

func TestAClientOfSeveralServersIsNeverPrompt(t *testing.T) {
	_, ok := onCluster(t).deaf("a").Prompt(ctx)
	equal(t, "prompt", ok, false)
	_, ok = NewServer((*redis.Client)(nil), "w:", "a").Prompt(ctx)
	equal(t, "without a client", ok, false)
}
