package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// held returns a Core whose releases succeed, and Leases on one of its holds, which lasts for so
// long: the later are nested.
func held(t *testing.T, lasts time.Duration, n int) (c *Core, leases []*Lease) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	c = New(rdb, "fairlock", lua.NewServer, &leaving{}, []Option{WithLogger(slog.New(slog.DiscardHandler))})
	t.Cleanup(func() { c.Close(); _ = rdb.Close() })
	keys, err := lua.NewKeys("fairlock", "x")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	granted := Granted{Keys: keys, Ticket: c.Ticket(&Request{Lease: time.Minute}), Token: 1, Requests: new(Requests)}
	term := rules.Term{Span: lasts, Ends: now.Add(lasts)}
	turn := c.Keep(granted, Run{}, term, For{Name: "x"}, now)
	for range n {
		lease, err := c.Adopt(t.Context(), turn, now, 0)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	return c, leases
}

// Between its two steps an Unlock ends the contexts.
func TestALockIsGivenBackOnlyWhenTheContextsOfAllItsLeasesHaveEnded(t *testing.T) {
	_, leases := held(t, time.Minute, 2)
	first, second := leases[0].share, leases[1].share
	one, other := first.finish(), second.finish()
	if !one.first || one.gives || !other.first || other.gives {
		t.Errorf("%+v, %+v: the lock is given back, and contexts live", one, other)
	}
	second.removeLater(&other)
	if other.gives || other.err != nil {
		t.Errorf("%+v: the lock is given back, and the contexts of the first live", other)
	}
	first.removeLater(&one)
	if !one.gives || one.err != nil {
		t.Errorf("%+v: nobody gives back the lock", one)
	}
	c := first.turn.hold.core
	c.giveBack(context.Background(), first.turn, nil, time.Second, one.at)
	if err := first.await(time.Now()); err != nil {
		t.Error(err)
	}
}

func TestALeaseThatIsLostWhileItsContextsEndIsNotGivenBack(t *testing.T) {
	c, leases := held(t, time.Minute, 2)
	s := leases[1].share
	e := s.finish()
	c.Lose(s.turn.hold, rules.Vanished)
	if s.removeLater(&e); e.gives || !isLost(e.err) {
		t.Errorf("%+v", e)
	}
}

// Close gives back what a LockAll has gathered.
func TestALockAllIsNotGivenWhatACloseHasGivenBack(t *testing.T) {
	c, leases := held(t, time.Minute, 1)
	g := gathering{core: c, all: []wanted{{name: "x"}}}
	g.has(leases[0])
	c.Close()
	if err := g.handOut(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, and the Lease is %v", err, leases[0].Err())
	}
}
