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

// sale is what became of its buyers.
type sale struct {
	*testing.T
	inside, served, refused, cancelled, failed atomic.Int64
}

const (
	buyers      = 9000
	mostInASale = 60 // waiters
)

// buys is one buyer, who has the lock for no time. One of ten goes away soon.
func (s *sale) buys(l *fairlock.Locker) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	if rand.IntN(10) == 0 {
		time.AfterFunc(time.Duration(rand.IntN(100))*time.Millisecond, cancel)
	}
	lease, err := l.Lock(ctx, "x", fairlock.MaxWaiters(1+rand.IntN(mostInASale)))
	switch {
	case err == nil:
		if s.inside.Add(1) > 1 && lease.Err() == nil {
			s.Error("two are in")
		}
		s.inside.Add(-1)
		s.served.Add(1)
		_ = lease.Unlock(context.WithoutCancel(ctx))
	case errors.Is(err, fairlock.ErrQueueFull):
		s.refused.Add(1)
	case errors.Is(err, context.Canceled):
		s.cancelled.Add(1)
	default: // its request was cut before it was in line
		s.failed.Add(1)
	}
}

func TestOfAFlashSalesThousandsEachIsServedAloneOrTurnedAwayOrEndsWithItsContextWhateverIsCut(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	proxy := faultproxy.New(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer rdb.Close()
	lockers := []*fairlock.Locker{fairlock.New(rdb), fairlock.New(rdb), fairlock.New(rdb)}
	s := &sale{T: t}
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() { s.buys(lockers[i%len(lockers)]) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	longest := int64(0)
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-time.After(20 * time.Millisecond):
			proxy.CutAll()
		}
		longest = max(longest, admin.LLen(t.Context(), "fairlock:queue:{x}").Val())
	}
	t.Logf("%d served, %d turned away, %d cancelled, %d failed; up to %d in line",
		s.served.Load(), s.refused.Load(), s.cancelled.Load(), s.failed.Load(), longest)
	if s.served.Load() == 0 || s.refused.Load() == 0 || s.failed.Load() > buyers/3 {
		t.Error("that is no flash sale")
	}
	if longest > 2*mostInASale { // who was passed over while out of reach comes back to a full line
		t.Errorf("%d in a line of %d", longest, mostInASale)
	}
	for _, l := range lockers {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	nothingStays(t, admin)
}
