package faketime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/quorum"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

const herd = 64

func TestAHerdOnAFreeLockIsServedInNoTimeAtAllForNoTimerTakesPart(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) { servesAHerd(t, n) })
		})
	}
}

// servesAHerd is in fake time, which passes only when everybody waits for it.
func servesAHerd(t *testing.T, n int) {
	t.Helper()
	var nodes []*pipes.Server
	for range n {
		nodes = append(nodes, pipes.New(t))
	}
	var lockers []*quorum.Locker
	for range 4 {
		var clients []redis.UniversalClient
		for i, mini := range nodes {
			rdb := redis.NewClient(&redis.Options{
				Addr: fmt.Sprint("127.0.0.1:", i+1), Dialer: mini.Dial, PoolSize: enough, // nobody looks the address up
			})
			t.Cleanup(func() { _ = rdb.Close() })
			clients = append(clients, rdb)
		}
		l := quorum.New(clients)
		t.Cleanup(func() { _ = l.Close() })
		lockers = append(lockers, l)
	}
	if err := lockers[0].Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	turn := func(l *quorum.Locker) {
		lease, err := l.Lock(t.Context(), "x")
		if err == nil {
			err = lease.Unlock(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	}
	for round := range 2 {
		began := time.Now()
		for i := range herd {
			all.Go(func() { turn(lockers[i%4]) })
		}
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("round %d: it took %v", round, took)
		}
		synctest.Wait()
	}
}
