package look

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is a server that answers after some time.
type slow struct{ way, work time.Duration }

func (*slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		time.Sleep(s.way)
		if cmd.Name() != "ping" {
			time.Sleep(s.work)
		}
		return nil
	}
}

func (s *slow) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		time.Sleep(s.way + time.Duration(len(cmds))*s.work)
		return nil
	}
}

// paced runs a test in fake time. Each look makes one request, and then ten more at once.
func paced(t *testing.T, test func(s *slow, look func() (spent, rest time.Duration))) {
	bubbles.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer rdb.Close()
		pace := NewPace(time.Second, rdb)
		s := new(slow)
		rdb.AddHook(s)
		test(s, func() (spent, rest time.Duration) {
			pace.Begin(t.Context())
			rdb.Echo(t.Context(), "")
			pipe := rdb.Pipeline()
			for range 10 {
				pipe.Echo(t.Context(), "")
			}
			_, _ = pipe.Exec(t.Context())
			return pace.End()
		})
	})
}

func TestTheServerIsLeftAloneForLongerTheMoreWorkALookWas(t *testing.T) {
	paced(t, func(s *slow, look func() (spent, rest time.Duration)) {
		s.way, s.work = 300*time.Millisecond, 2*time.Millisecond
		for range least - 1 {
			if spent, rest := look(); spent != 11*s.work || rest != time.Second {
				t.Errorf("at first: spent %v, rest %v", spent, rest)
			}
		}
		if spent, rest := look(); spent != 11*s.work || rest < 100*spent {
			t.Errorf("spent %v, rest %v", spent, rest)
		}
		s.work = time.Microsecond
		if spent, rest := look(); spent != 11*s.work || rest != time.Second {
			t.Errorf("spent %v, rest %v", spent, rest)
		}
	})
}

func TestLooksThatWereHeldUpDoNotChangeThePaceUnlessAllAre(t *testing.T) {
	paced(t, func(s *slow, look func() (spent, rest time.Duration)) {
		s.way, s.work = time.Millisecond, time.Millisecond
		for range least {
			look()
		}
		_, usual := look()
		s.work = time.Minute
		for range least - 1 {
			if _, rest := look(); rest != usual {
				t.Errorf("%v after %v", rest, usual)
			}
		}
		if _, rest := look(); rest < 100*11*time.Minute {
			t.Errorf("%v when it is always so", rest)
		}
	})
}

// SCAN goes to each node of a cluster by itself, past the hooks of the cluster's client.
func TestWhatANodeOfAClusterIsAskedCounts(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.StartCluster(t).Addr()}})
	defer rdb.Close()
	pace := NewPace(0, rdb)
	pace.Begin(t.Context())
	sent := pace.requests[0].sent
	err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.Scan(ctx, 0, "", 10).Err()
	})
	if err != nil || pace.requests[0].sent == sent {
		t.Errorf("a request to a node does not count, %v", err)
	}
	sent = pace.requests[0].sent
	if err := rdb.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) || pace.requests[0].sent == sent {
		t.Errorf("a request to the cluster does not count, %v", err)
	}
}
