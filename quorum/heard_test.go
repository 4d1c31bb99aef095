package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestARefusalAfterAWaitNamesTheHolderOfThen(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		a, b, l := h.locker(), h.locker(), h.locker()
		first := h.has(a, "x")
		next := make(chan *Lease, 1)
		go func() { next <- h.has(b, "x") }()
		time.Sleep(time.Second)
		refused := make(chan error, 1)
		go func() {
			_, err := l.Lock(h.Context(), "x", WaitAtMost(20*time.Second))
			refused <- err
		}()
		time.Sleep(time.Second)
		if err := first.Unlock(context.Background()); err != nil {
			h.Fatal(err)
		}
		lease := <-next
		var held *HeldError
		if err := <-refused; !errors.As(err, &held) || held.Owner != lease.Owner() || held.Remaining < 5*time.Second {
			h.Errorf("%s has the lock, and it says %v", lease.Owner(), err)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestACloseEndsAListAndDoesNotWaitForAllItsPages(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	const pages = 200
	var asked atomic.Int32
	for i, direct := range w.direct {
		keys := make([]any, 0, 200*pages)
		for k := range 100 * pages {
			keys = append(keys, fmt.Sprint("other:", k), "")
		}
		w.must(direct.MSet(w.Context(), keys...).Err())
		l.nodes[i].rdb.(*redis.Client).AddHook(before(func(cmds ...redis.Cmder) {
			if cmds[0].Name() == "scan" {
				asked.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		}))
	}
	listed := make(chan error, 1)
	go func() {
		for _, err := range l.List(w.Context()) {
			listed <- err
			return
		}
		listed <- nil
	}()
	w.until("it lists", func() bool { return asked.Load() > 3 })
	before := asked.Load() // on a busy machine, those may be many
	w.must(l.Close())
	w.is(<-listed, ErrClosed)
	if n := asked.Load() - before; n > pages {
		t.Errorf("Close waited for %d pages", n)
	}
}

func TestALockAllWaitsForAMajorityAsALockDoes(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	w.unlock(w.has(l, "x"))
	for _, s := range w.servers[1:] {
		s.Kill()
	}
	_, err := l.TryLock(w.Context(), "x")
	w.is(err, ErrUnreachable)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := l.LockAll(ctx, []string{"x", "y"})
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("it does not wait: %v", err)
	case <-time.After(4 * silence):
		cancel()
		w.is(<-ended, context.Canceled)
	}
	cancel()
}

func TestANodeThatAnswersAgainIsNotAskedByEachOfACrowd(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		lease := h.has(other, "x")
		const crowd = 300
		ctx, cancel := context.WithCancel(h.Context())
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { _, _ = l.Lock(ctx, "x") })
		}
		time.Sleep(12 * time.Second)
		var asked atomic.Int32
		l.nodes[2].rdb.(*redis.Client).AddHook(before(func(...redis.Cmder) { asked.Add(1) }))
		h.cuts(l, 2)(1)
		time.Sleep(12 * time.Second)
		if n := asked.Load(); n == 0 || n > crowd/5 {
			h.Errorf("%d requests of %d waiters in two heartbeats", n, crowd)
		}
		cancel()
		all.Wait()
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}
