package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/clocks"
)

// leaving is a Strategy whose releases look whether a context has not ended yet.
type leaving struct {
	Strategy
	contexts []context.Context
	live     atomic.Int32
}

func (s *leaving) Release(context.Context, *lua.Server, *Hold) (lua.Was, error) {
	for _, ctx := range s.contexts {
		if ctx.Err() == nil {
			s.live.Add(1)
		}
	}
	return lua.Held, nil
}

func (s *leaving) Forget(*Hold) {}

// One renewal has given many holds the same end.
func TestLocksLeaveTheServerOnlyWhenTheContextsOfAllThatWereLostHaveEnded(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	s := &leaving{}
	c := New(rdb, "fairlock", lua.NewServer, s, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	const holds, lease = 500, 10 * time.Second
	now := time.Now()
	for i := range holds {
		keys, err := lua.NewKeys("fairlock", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		granted := Granted{Keys: keys, Ticket: c.Ticket(&Request{Lease: lease}), Token: 1, Requests: new(Requests)}
		granted.Requests.Sent() // and not answered: it may prolong what is lost
		turn := c.Keep(granted, Run{}, rules.Term{Span: lease, Ends: now.Add(lease)}, For{Name: fmt.Sprint(i)}, now)
		held, err := c.Adopt(t.Context(), turn, now, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.contexts = append(s.contexts, held.Context())
	}
	c.tick(now.Add(lease))
	c.Close()
	if n := s.live.Load(); n > 0 {
		t.Errorf("contexts that had not ended were seen %d times", n)
	}
}

// late is a strategy whose first grant is late: its lease has ended.
type late struct {
	leaving
	core  *Core
	calls int
}

func (s *late) Acquire(_ context.Context, call Call) (*Turn, error) {
	const lease = 10 * time.Second
	s.calls++
	asked := time.Now()
	if s.calls == 1 {
		time.Sleep(lease)
	} else {
		time.Sleep(time.Second)
	}
	granted := Granted{Keys: call.Keys, Ticket: s.core.Ticket(&call.Request), Token: 1, Requests: new(Requests)}
	return s.core.Keep(granted, Run{}, rules.Term{Span: lease, Ends: asked.Add(lease)}, For{Name: call.Name}, asked), nil
}

type acquired chan time.Duration

func (a acquired) Observe(e Event) {
	if e.Kind == Acquired {
		a <- e.Took
	}
}

func TestTheWaitOfACallThatHadToJoinTheLineAgainIsToldFromItsBeginning(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer rdb.Close()
		s, took := &late{}, make(acquired, 1)
		s.core = New(rdb, "fairlock", lua.NewServer, s, []Option{WithLogger(slog.New(slog.DiscardHandler)), WithObserver(took)})
		defer s.core.Close()
		keys, err := lua.NewKeys("fairlock", "x")
		if err != nil {
			t.Fatal(err)
		}
		call := Call{Name: "x", Keys: keys, Request: Request{Lease: 10 * time.Second, Wait: time.Minute}, Began: time.Now()}
		lease, err := s.core.pursue(t.Context(), &call, call.Began, call.Request.Wait)
		if err != nil {
			t.Fatal(err)
		}
		if took := <-took; took != 11*time.Second || s.calls != 2 {
			t.Errorf("%v in %d calls", took, s.calls)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAfterASuspensionWhatIsStillTrustedIsRenewedAtOnce(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c := New(rdb, "fairlock", lua.NewServer, &leaving{}, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	defer c.Close()
	const lease = 30 * time.Second
	keys, err := lua.NewKeys("fairlock", "x")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	granted := Granted{Keys: keys, Ticket: c.Ticket(&Request{Lease: lease}), Token: 1, Requests: new(Requests)}
	turn := c.Keep(granted, Run{}, rules.Term{Span: lease, Ends: now.Add(lease)}, For{Name: "x"}, now)
	held, err := c.Adopt(t.Context(), turn, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	woke := clocks.Suspended(now, 20*time.Second)
	c.tick(woke)
	c.mu.Lock()
	next := turn.hold.RenewAt
	c.mu.Unlock()
	if after := next.Sub(woke); after != lease/10 { // the one that was sent may go unanswered
		t.Errorf("the next renewal comes after %v", after)
	}
	if err := held.Err(); err != nil {
		t.Error(err)
	}
}
