package crowds

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

func TestOfAFlashSalesThousandsEachIsServedAloneOrTurnedAwayOrEndsWithItsContextWhateverIsCut(t *testing.T) {
	const buyers, most = 3000, 60
	server := redistest.Start(t)
	admin := server.Client(t)
	proxy := faultproxy.New(t, server.Addr())
	var lockers []*fairlock.Locker
	for range 3 {
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		defer rdb.Close()
		lockers = append(lockers, fairlock.New(rdb))
	}
	var inside, served, refused, cancelled, failed, longest atomic.Int64
	buys := func(l *fairlock.Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if rand.IntN(10) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(100))*time.Millisecond, cancel)
		}
		lease, err := l.Lock(ctx, "x", fairlock.MaxWaiters(1+rand.IntN(most)))
		switch {
		case err == nil:
			if inside.Add(1) > 1 && lease.Err() == nil {
				t.Error("two are in")
			}
			inside.Add(-1)
			served.Add(1)
			_ = lease.Unlock(context.WithoutCancel(ctx))
		case errors.Is(err, fairlock.ErrQueueFull):
			refused.Add(1)
		case errors.Is(err, context.Canceled):
			cancelled.Add(1)
		default: // its request was cut before it was in line
			failed.Add(1)
		}
	}
	var all sync.WaitGroup
	for i := range len(lockers) * buyers {
		all.Go(func() { buys(lockers[i%len(lockers)]) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-time.After(20 * time.Millisecond):
			proxy.CutAll()
		}
		longest.Store(max(longest.Load(), admin.LLen(t.Context(), "fairlock:queue:{x}").Val()))
	}
	t.Logf("%d served, %d turned away, %d cancelled, %d failed; up to %d in line",
		served.Load(), refused.Load(), cancelled.Load(), failed.Load(), longest.Load())
	if failed.Load() > buyers {
		t.Error("that is no way to fail")
	}
	if served.Load() == 0 || refused.Load() == 0 {
		t.Error("that is no flash sale")
	}
	if longest.Load() > 2*most { // who was passed over while out of reach comes back to a full line
		t.Errorf("%d in a line of %d", longest.Load(), most)
	}
	for _, l := range lockers {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	nothingStays(t, admin)
}
