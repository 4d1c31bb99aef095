package crowds

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

const aThousand = 1000

// queueUp has n calls of one Locker wait for the lock, one after the other. It returns the calls in
// the order of the line.
func queueUp(t *testing.T, admin *redis.Client, locker *fairlock.Locker, n int) []*call {
	t.Helper()
	calls := make([]*call, n)
	for i := range calls {
		ctx, cancel := context.WithCancel(context.Background())
		c := &call{cancel: cancel, done: make(chan struct{})}
		calls[i] = c
		go func() {
			defer close(c.done)
			c.lease, c.err = locker.Lock(ctx, "x")
		}()
		for admin.LLen(context.Background(), "fairlock:queue:{x}").Val() <= int64(i) {
			time.Sleep(50 * time.Microsecond)
		}
	}
	return calls
}

type call struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when lease and err are set
	lease  *fairlock.Lease
	err    error
}

func TestAThousandWaitersOfOneLockerNeedOneSubscriptionAndTwoConnectionsAndAreServedInOrder(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	holder := fairlock.New(server.Client(t))
	defer holder.Close()
	locker := fairlock.New(server.Client(t, func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 2, 2 }))
	defer locker.Close()

	held, err := holder.Lock(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	calls := queueUp(t, admin, locker, aThousand)
	world.Until(t, "it listens", func() bool { return world.Subscriptions(admin) > 0 })
	if n := world.Subscriptions(admin); n != 1 {
		t.Fatalf("%d subscription connections", n)
	}
	last := held.Token()
	start := time.Now()
	if err := held.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, c := range calls {
		<-c.done
		if c.err != nil {
			t.Fatalf("waiter %d: %v", i, c.err)
		}
		if c.lease.Token() <= last {
			t.Fatalf("waiter %d was overtaken", i)
		}
		last = c.lease.Token()
		if err := c.lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.cancel()
	}
	t.Logf("%d grants in %v", aThousand, time.Since(start))
}

func TestHalfOfAThousandWaitersCancelledAtRandomMomentsLeaveNothingAndStallNobody(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	locker := fairlock.New(server.Client(t, func(o *redis.Options) { o.PoolSize = 4 }))
	held, err := locker.Lock(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	calls := queueUp(t, admin, locker, aThousand)
	go func() {
		for _, i := range rand.Perm(aThousand)[:aThousand/2] {
			calls[i].cancel()
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		}
	}()
	if err := held.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
	served, last := 0, held.Token()
	for i, c := range calls {
		<-c.done
		c.cancel()
		if c.err != nil {
			continue
		}
		served++
		if c.lease.Token() <= last {
			t.Fatalf("waiter %d was overtaken", i)
		}
		last = c.lease.Token()
		if err := c.lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if served < aThousand/2 {
		t.Fatalf("%d of the %d that were not cancelled were served", served, aThousand/2)
	}
	if err := locker.Close(); err != nil {
		t.Fatal(err)
	}
	nothingStays(t, admin)
}

func TestAWaitCancelledAtTheVeryMomentOfItsGrantGivesItBackAndTheNextOneHasIt(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	a, b := fairlock.New(server.Client(t)), fairlock.New(server.Client(t))
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	returned := 0
	for range rounds {
		lease, err := a.Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		waiting := queueUp(t, admin, b, 2)
		var both sync.WaitGroup
		both.Go(func() { _ = lease.Unlock(context.Background()) })
		both.Go(func() {
			time.Sleep(time.Duration(rand.IntN(400)) * time.Microsecond) // about as long as a hand-over takes
			waiting[0].cancel()
		})
		both.Wait()
		<-waiting[0].done
		if waiting[0].err != nil {
			returned++
		} else if err := waiting[0].lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-waiting[1].done:
		case <-time.After(world.Claim - 100*time.Millisecond): // a claim takes longer, and a heartbeat
			t.Fatal("the next in line stalled")
		}
		if waiting[1].err != nil {
			t.Fatal(waiting[1].err)
		}
		if err := waiting[1].lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
		waiting[1].cancel()
	}
	t.Logf("%d of %d waits ended before they had the lock", returned, rounds)
	a.Close()
	b.Close()
	nothingStays(t, admin)
}

// nothingStays waits until the server has nothing but token keys, the protocol, and marks that
// expire, and no subscription.
func nothingStays(t *testing.T, admin *redis.Client) {
	t.Helper()
	ctx := context.Background()
	left := func() []string {
		channels := admin.PubSubChannels(ctx, "*").Val()
		for _, key := range admin.Keys(ctx, "*").Val() {
			switch {
			case world.OutlivesUsers("fairlock", key), world.OutlivesUsers("fairlock:plain", key):
			case strings.Contains(key, ":waiters:") && admin.ZCount(ctx, key, "0", "+inf").Val() == 0:
			default:
				channels = append(channels, key)
			}
		}
		return channels
	}
	limit := time.Now().Add(10 * time.Second)
	for len(left()) > 0 {
		if time.Now().After(limit) {
			t.Fatalf("stays behind: %v", left())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
