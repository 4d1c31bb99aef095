package lua

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// of is a cluster of these masters, whose client knows them once known is closed.
type of struct {
	*redis.ClusterClient
	known chan struct{}
	nodes []*redis.Client
}

func (o of) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	<-o.known
	for _, node := range o.nodes {
		if err := f(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

func TestMastersOfAClusterThatFallSilentKeepNobodyForLong(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		mini := pipes.New(t)
		hangs, lives := silentFor(-1, false), redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: mini.Dial})
		defer hangs.Close()
		defer lives.Close()
		never, known := make(chan struct{}), make(chan struct{})
		defer close(never)
		close(known)
		for _, c := range []struct {
			what    string
			cluster of
			replies int
		}{
			{"a node that is asked for the others", of{known: never}, 0},
			{"the only one", of{known: known, nodes: []*redis.Client{hangs}}, 0},
			{"one of two", of{known: known, nodes: []*redis.Client{hangs, lives}}, 1},
		} {
			s, began := NewServer(c.cluster, "x:wake:", "y"), time.Now()
			replies, err := s.Masters(ctx, "ping")
			equal(t, c.what+": replies", len(replies), c.replies)
			equal(t, c.what+": left to itself", Kept(err), c.replies == 0)
			equal(t, c.what+": took", time.Since(began), MostKept)
			began = time.Now()
			_, _, err = s.Scan("x", 10).Next(ctx)
			equal(t, c.what+": a scan is left to itself", Kept(err), true)
			equal(t, c.what+": a scan took", time.Since(began), MostKept)
		}
	})
}

// ender is a hook that ends the goroutine of each request.
type ender struct{}

func (ender) DialHook(next redis.DialHook) redis.DialHook { return next }

func (ender) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (ender) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error {
		runtime.Goexit()
		return nil
	}
}

func TestMastersWhoseGoroutinesAHookEndsHaveNotAnswered(t *testing.T) {
	known := make(chan struct{})
	close(known)
	for _, read := range []time.Duration{time.Second, -1} { // with timeouts, and without
		node := silentFor(read, false)
		t.Cleanup(func() { _ = node.Close() })
		node.AddHook(ender{})
		whole := redis.NewClusterClient(&redis.ClusterOptions{ReadTimeout: read})
		t.Cleanup(func() { _ = whole.Close() })
		s := NewServer(of{whole, known, []*redis.Client{node}}, "x:wake:", "y")
		s.timing.learn(whole) // of wraps it
		equal(t, "nothing bounds them", s.timing.unbounded(), read < 0)
		replies, err := s.Masters(ctx, "ping")
		equal(t, "replies", len(replies), 0)
		equal(t, "cut short", errors.Is(err, ErrCutShort), true)
	}
}
