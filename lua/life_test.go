package lua

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/bubbles"
)

// dark returns a client of a machine that nothing comes back from.
func dark() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
}

func TestRequestsThatWaitForAConnectionEndWithTheSecondGiveUpAfterTheirBegin(t *testing.T) {
	type key struct{}
	for what, of := range map[string]func(mayEnd context.Context) context.Context{
		"of no context":             func(context.Context) context.Context { return context.Background() },
		"of values alone":           func(context.Context) context.Context { return context.WithValue(context.Background(), key{}, 1) },
		"of a context that may end": func(mayEnd context.Context) context.Context { return mayEnd },
		"with a deadline for reads": func(mayEnd context.Context) context.Context { return until{mayEnd, time.Now().Add(time.Hour)} },
	} {
		t.Run(what, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				under := of(t.Context())
				rdb := dark()
				defer time.Sleep(time.Minute) // go-redis dials on
				defer rdb.Close()
				s := NewServer(rdb, "w:", "a")
				var all sync.WaitGroup
				defer all.Wait()
				s.Spawn(all.Go, nil)
				s.Mortal()
				ask := func() <-chan error {
					failed := make(chan error, 1)
					all.Go(func() {
						_, err := s.Do(under, "ping")
						failed <- err
					})
					return failed
				}
				first := ask()
				time.Sleep(time.Millisecond)
				s.GiveUp()
				second := ask()
				time.Sleep(time.Millisecond)
				equal(t, "the first ended at once", len(first), 0)
				s.GiveUp()
				equal(t, "the first is unanswered", Unanswered(<-first), true)
				time.Sleep(time.Millisecond)
				equal(t, "the second ended at once", len(second), 0)
				s.GiveUp()
				equal(t, "the second is unanswered", Unanswered(<-second), true)
			})
		})
	}
}

func TestRequestsToAMortalServerShareAWriteAndHaveTheValuesOfTheirContexts(t *testing.T) {
	type key struct{}
	s := NewServer(dark(), "w:", "a")
	defer s.rdb.Close()
	s.Mortal()
	for _, ctx := range []context.Context{context.Background(), context.WithValue(context.Background(), key{}, "its own")} {
		own, over := s.under(ctx)
		equal(t, "shares", lasts(own), true)
		equal(t, "value", own.Value(key{}), ctx.Value(key{}))
		over()
	}
	with, cancel := context.WithCancel(context.Background())
	own, over := s.under(with)
	equal(t, "shares, though it may end", lasts(own), false)
	cancel()
	<-own.Done()
	over()
}

func TestTheContextOfAMortalServersRequestKeepsTheCallersPatience(t *testing.T) {
	s := NewServer(nil, "w:", "a")
	s.Mortal()
	own, over := s.under(patient{context.Background()})
	defer over()
	if at, ok := own.Deadline(); !ok || time.Until(at) > patience {
		t.Errorf("reads end at %v, %v", at, ok)
	}
}
