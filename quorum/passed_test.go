package quorum

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// overs counts what an Observer hears of waiters that were passed over.
type overs struct{ atomic.Int32 }

func (o *overs) Observe(e Event) {
	if e.Kind == PassedOver {
		o.Add(1)
	}
}

// doorman lets no enter pass before it opens, and counts those that pass.
type doorman struct {
	says   error
	opened atomic.Bool
	passed atomic.Int32
}

func (*doorman) DialHook(next redis.DialHook) redis.DialHook { return next }

// lets reports whether the commands may pass.
func (d *doorman) lets(cmds ...redis.Cmder) bool {
	sha := enterScript.Command(nil)[1]
	enters := 0
	for _, cmd := range cmds {
		if slices.Contains(cmd.Args(), sha) {
			enters++
		}
	}
	if enters > 0 && !d.opened.Load() {
		return false
	}
	d.passed.Add(int32(enters))
	return true
}

func (d *doorman) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !d.lets(cmd) {
			cmd.SetErr(d.says)
			return d.says
		}
		return next(ctx, cmd)
	}
}

func (d *doorman) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !d.lets(cmds...) {
			for _, cmd := range cmds {
				cmd.SetErr(d.says)
			}
			return d.says
		}
		return next(ctx, cmds)
	}
}

func TestAWaiterThatNeverStoodInANodesLineWasNotPassedOverThereAndAsksOnceWhenTheNodeAnswers(t *testing.T) {
	for _, says := range []error{net.ErrClosed, definite{errors.New("NOPERM for now")}} {
		t.Run(says.Error(), func(t *testing.T) {
			inFakeTime(t, 3, func(h *hushed) { h.standsNowhere(&doorman{says: says}) })
		})
	}
}

// standsNowhere has a crowd wait whom one node's doorman lets in late.
func (h *hushed) standsNowhere(d *doorman) {
	o := new(overs)
	l, other := h.locker(WithObserver(o)), h.locker()
	lease := h.has(other, "x")
	l.nodes[2].rdb.(*redis.Client).AddHook(d) //nolint:forcetypeassert // it is one
	const crowd = 10
	ctx, cancel := context.WithCancel(h.Context())
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() { _, _ = l.Lock(ctx, "x") })
	}
	time.Sleep(3 * beatEvery)
	line := func() int {
		tickets, err := h.nodes[2].ZMembers("quorum:queue:{x}")
		if err != nil {
			h.Fatal(err)
		}
		return len(tickets)
	}
	if n := line(); n != 1 {
		h.Fatalf("%d stand in a line that only the holder could join", n)
	}
	d.opened.Store(true)
	for opened := time.Now(); line() < 1+crowd; time.Sleep(time.Millisecond) {
		if time.Since(opened) > 3*beatEvery {
			h.Fatalf("%d of %d stand in line", line(), 1+crowd)
		}
	}
	time.Sleep(beatEvery)
	if n := o.Load(); n > 0 {
		h.Errorf("%d times one of %d was passed over", n, crowd)
	}
	if n := d.passed.Load(); n != crowd {
		h.Errorf("%d requests of %d waiters", n, crowd)
	}
	cancel()
	all.Wait()
	if err := lease.Unlock(h.Context()); err != nil {
		h.Error(err)
	}
}
