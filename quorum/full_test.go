package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// full makes nodes refuse every write that needs memory, until the test ends.
func (w *world) full(nodes ...int) {
	w.Helper()
	for _, i := range nodes {
		rdb := w.direct[i]
		w.must(rdb.ConfigSet(w.Context(), "maxmemory", "1").Err())
		w.Cleanup(func() { w.must(rdb.ConfigSet(context.Background(), "maxmemory", "0").Err()) })
	}
}

// refusesNewcomers has a Locker find out that its nodes are full.
func (w *world) refusesNewcomers(l *Locker) {
	w.Helper()
	var err error
	full := func() bool { return err != nil && strings.Contains(err.Error(), "OOM") }
	w.until("nodes answer a newcomer in time", func() bool {
		_, err = l.TryLock(w.Context(), "new")
		return full() || !errors.Is(err, ErrUnreachable)
	})
	if !full() {
		w.Errorf("a newcomer is told: %v", err)
	}
}

func TestFullNodesTakeTheLockFromNoHolder(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker(WithLease(calm))
	watched := w.has(l, "x")
	fixed := w.has(l, "y", LeaseFor(30*time.Second))
	w.full(0, 1, 2)
	w.refusesNewcomers(l) // so all nodes count as away
	end := watched.Deadline()
	w.until("it is renewed for longer than it was held before", func() bool { return watched.Deadline().After(end.Add(calm)) })
	w.must(watched.Err())
	w.everywhere(watched, 3)
	w.must(fixed.Extend(w.Context(), 40*time.Second))
	if s := w.looks(l); s.Holder == nil || s.Holder.Token != watched.Token() {
		t.Errorf("it is shown as %+v", s)
	}
	w.unlock(fixed)
	w.unlock(watched)
	w.nothing()
}

func TestFullNodesWriteDownAHoldThatTheyHaveLost(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker(WithLease(calm))
	lease := w.has(l, "x")
	w.everywhere(lease, 3)
	w.full(0, 1, 2)
	w.must(w.direct[0].Del(t.Context(), "quorum:lock:{x}", "quorum:queue:{x}", "quorum:token:{x}").Err())
	w.everywhere(lease, 3)
	w.unlock(lease)
	w.nothing()
}

func TestFullNodesTakeTheTurnFromNobodyWhoWaits(t *testing.T) {
	w := realNodes(t, 3)
	holder, l := w.locker(), w.locker()
	lease := w.has(holder, "x", LeaseFor(30*time.Second))
	next := w.queues(l, "x")
	waiting := func(i int) (overdue float64) {
		line := w.direct[i].ZRange(w.Context(), "quorum:queue:{x}", 0, -1).Val()
		for _, ticket := range line {
			if !strings.HasPrefix(ticket, lease.Owner()+":") {
				overdue = w.direct[i].ZScore(w.Context(), "quorum:waiters:{x}", ticket).Val()
			}
		}
		return overdue
	}
	w.until("it stands in all lines", func() bool { return waiting(0) > 0 && waiting(1) > 0 && waiting(2) > 0 })
	w.full(0, 1, 2)
	w.refusesNewcomers(l)
	again := func() { // whoever subscribes anew sends a heartbeat
		for _, rdb := range w.direct {
			w.must(rdb.ClientKillByFilter(w.Context(), "TYPE", "pubsub").Err())
		}
	}
	var before [3]float64
	for i := range before {
		before[i] = waiting(i)
	}
	again()
	w.until("its heartbeat is heard", func() bool {
		return waiting(0) > before[0] && waiting(1) > before[1] && waiting(2) > before[2]
	})
	for _, rdb := range w.direct {
		w.must(rdb.Del(w.Context(), "quorum:queue:{x}", "quorum:waiters:{x}").Err())
	}
	again()
	w.until("it stands in all lines again", func() bool { return waiting(0) > 0 && waiting(1) > 0 && waiting(2) > 0 })
	w.unlock(lease)
	w.unlock(w.gets(next))
	w.nothing()
}
