package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestACallEndsWithItsContextThoughItsClientPipelinesByItself(t *testing.T) {
	onEachKind(t, func(f *faulty) {
		rdb := redis.NewClient(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: world.Patience})
		auto, err := rdb.AsyncAutoPipeline()
		f.Must(err)
		f.Cleanup(func() { _, _ = auto.Close(), rdb.Close() }) // how they end does not matter
		u := f.With(auto)
		f.Unlocks(u.Locks("x"))
		enter := f.All(f.Verb("enter"), faultproxy.HoldRequest())
		ctx, cancel := context.WithCancel(background)
		tried := make(chan error, 1)
		go func() {
			_, err := u.TryLock(ctx, "x")
			tried <- err
		}()
		enter.WaitHit(f, 1, world.Patience)
		cancel()
		f.Within(world.Soon, "TryLock", func() {
			if err := <-tried; !errors.Is(err, context.Canceled) {
				f.Errorf("%v", err)
			}
		})
		enter.Remove()
		enter.Release()
		enter.WaitExecuted(f, enter.Hits(), world.Patience)
		f.Until("it has left", func() bool { return f.Holder("x") == 0 && f.Line("x") == 0 })
		f.nobody("x")
	})
}
