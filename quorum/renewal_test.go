package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

// wire is what happens to requests of one script on the way to a node.
type wire struct {
	sha  string
	fail atomic.Int32  // so many of the next requests do not arrive
	slow time.Duration // the others take so much longer
	late time.Duration // and so do their answers
}

func (*wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.Contains(fmt.Sprint(cmd.Args()...), w.sha) {
			return next(ctx, cmd)
		}
		if w.fail.Add(-1) >= 0 {
			cmd.SetErr(net.ErrClosed)
			return net.ErrClosed
		}
		time.Sleep(w.slow)
		defer time.Sleep(w.late)
		return next(ctx, cmd)
	}
}

func (*wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// on puts a wire between a Locker and a node.
func (h *hushed) on(l *Locker, i int, sc lua.Script, fail int32, slow time.Duration) *wire {
	h.Helper()
	w := &wire{sha: sc.Command(nil)[1].(string), slow: slow}
	w.fail.Store(fail)
	l.nodes[i].rdb.(*redis.Client).AddHook(w)
	return w
}

func TestARenewalThatNoMajorityAnsweredIsSentAgainSoon(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		for i := range 2 {
			h.on(l, i, renewScript, 1, 0)
		}
		lease := h.has(l, "x")
		time.Sleep(5 * time.Second)
		if err := lease.Err(); err != nil {
			h.Error(err)
		}
	})
}

func TestAHoldLivesOnAnswersOfANodeThatIsSlow(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.on(l, 1, renewScript, 0, 400*time.Millisecond)
		h.on(l, 2, renewScript, 1e6, 0)
		time.Sleep(time.Minute)
		if err := lease.Err(); err != nil {
			h.Error(err)
		}
	})
}

func TestAFixedLeaseIsConfirmedByAMajorityBeforeAnybodyHasIt(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		for i := range 2 {
			h.on(l, i, renewScript, 1, 0)
		}
		lease := h.has(l, "x", LeaseFor(30*time.Second))
		if left := time.Until(lease.Deadline()); left < 25*time.Second {
			h.Errorf("it is trusted for %v", left)
		}
	})
}

func TestAnExtendSucceedsWhenAMajorityHasProlongedTheHold(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x", LeaseFor(30*time.Second))
		var wires []*wire
		for i := range 3 {
			wires = append(wires, h.on(l, i, renewScript, 0, 0))
		}
		fails := func(down ...int) {
			for _, w := range wires {
				w.fail.Store(0)
			}
			for _, i := range down {
				wires[i].fail.Store(1e6)
			}
			time.Sleep(2 * time.Second) // the others are found to be back
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := lease.Extend(ctx, 50*time.Second); !errors.Is(err, context.DeadlineExceeded) {
				h.Errorf("it says %v, and the trust lasts for %v", err, time.Until(lease.Deadline()))
			}
		}
		fails(0, 1)
		time.Sleep(10 * time.Second)
		fails(0, 2) // the third has the longer lease already
		for _, w := range wires {
			w.fail.Store(0)
		}
		time.Sleep(2 * time.Second)
		if err := lease.Extend(context.Background(), 50*time.Second); err != nil {
			h.Error(err)
		}
		if left := time.Until(lease.Deadline()); left < 50*time.Second {
			h.Errorf("the trust lasts for %v", left)
		}
	})
}

// A node that restarts grants nothing for as long as the longest lease. A hold that lasts longer
// would not be alone.
func TestNoExtendGoesBeyondTheLongestLease(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		lease := h.has(l, "x", LeaseFor(30*time.Second))
		for _, d := range []time.Duration{5 * time.Minute, time.Minute} {
			if err := lease.Extend(context.Background(), d); !errors.Is(err, ErrInvalid) {
				h.Errorf("an Extend by %v says %v", d, err)
			}
		}
		if err := lease.Extend(context.Background(), 53*time.Second); err != nil {
			h.Error(err)
		}
		for i := range 2 {
			h.nodes[i].FlushAll()
		}
		h.has(other, "x")
		if lease.Err() == nil {
			h.Error("two have the lock")
		}
	})
}

func TestALockWhoseKeyIsDamagedCostsNoOtherLockOfItsHolder(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		damaged, sound := h.has(l, "a"), h.has(l, "b")
		for _, node := range h.nodes[:2] {
			node.Del("quorum:waiters:{a}")
			_ = node.Set("quorum:waiters:{a}", "of a wrong type")
		}
		time.Sleep(time.Minute)
		if err := sound.Err(); err != nil {
			h.Error(err)
		}
		if err := damaged.Err(); !errors.Is(err, ErrLost) {
			h.Errorf("the damaged one says %v", err)
		}
	})
}

func TestANodeThatIsBackIsAskedForManyHoldsTogether(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		const many = 400
		var leases []*Lease
		for n := range many {
			leases = append(leases, h.has(l, fmt.Sprint("x", n)))
		}
		time.Sleep(2 * time.Second) // they have been renewed
		h.nodes[2].SetError("LOADING the dataset")
		time.Sleep(10 * time.Second)
		h.nodes[2].SetError("")
		before := h.nodes[2].CommandCount()
		time.Sleep(time.Second)
		for n := range many {
			if ttl := h.nodes[2].TTL(fmt.Sprint("quorum:lock:{x", n, "}")); ttl < 25*time.Second {
				h.Fatalf("lock %d ends there in %v", n, ttl)
			}
		}
		if n := h.nodes[2].CommandCount() - before; n > 10*many { // those of one script for each would be more
			h.Errorf("%d commands", n)
		}
		runtime.KeepAlive(leases)
	})
}

func TestALockThatWasExtendedForLongIsGivenBackAfterALongOutage(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		long := WithLongestLease(time.Hour)
		l, other := h.afresh(long), h.locker(long)
		lease := h.has(l, "x")
		if err := lease.Extend(context.Background(), 50*time.Minute); err != nil {
			h.Fatal(err)
		}
		var wires []*wire
		for i := range 3 {
			wires = append(wires, h.on(l, i, leaveScript, 1e6, 0))
		}
		_ = lease.Unlock(context.Background())
		time.Sleep(3 * time.Minute)
		for _, w := range wires {
			w.fail.Store(0)
		}
		time.Sleep(time.Minute)
		next, err := other.TryLock(h.Context(), "x")
		if err != nil {
			h.Fatal(err)
		}
		_ = next.Unlock(context.Background())
	})
}

func TestALockWithAShortLeaseIsNotLostAsANodeFallsSilent(t *testing.T) {
	for silent := range 3 {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker(WithLease(200 * time.Millisecond))
			lease := h.has(l, "x")
			time.Sleep(5 * time.Second)
			h.hush(silent)
			time.Sleep(5 * time.Second)
			if err := lease.Err(); err != nil {
				h.Error(err)
			}
			h.answers()
			_ = lease.Unlock(context.Background())
		})
	}
}
