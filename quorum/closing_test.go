package quorum

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// closing is a caller's context that closes the Locker as it is asked for the nth time.
type closing struct {
	context.Context
	l    *Locker
	left *atomic.Int32
}

func (c closing) asked() {
	if c.left.Add(-1) == -1 {
		_ = c.l.Close()
	}
}

func (c closing) Done() <-chan struct{} { c.asked(); return c.Context.Done() }
func (c closing) Err() error            { c.asked(); return c.Context.Err() }

func TestACallersContextMayCloseTheLockerWhileAFixedLeaseIsConfirmed(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		for n := range int32(12) {
			l := h.locker()
			ctx := closing{h.Context(), l, new(atomic.Int32)}
			ctx.left.Store(n)
			h.within("a call", 10*time.Second, func() {
				if lease, err := l.Lock(ctx, "x", LeaseFor(20*time.Second)); err == nil {
					_ = lease.Unlock(context.Background())
				}
			})
			if err := h.locker().ForceUnlock(h.Context(), "x"); err != nil && !errors.Is(err, ErrNotHeld) {
				h.Error(err)
			}
		}
	})
}

func TestAnUnlockOfSeveralSaysSoIfAHookEndsTheGoroutineThatReleases(t *testing.T) {
	w := realNodes(t, 3)
	var on atomic.Bool
	l := w.hooked(before(func(cmds ...redis.Cmder) {
		if on.Load() && cmds[0].Name() == "evalsha" {
			runtime.Goexit()
		}
	}), true)
	a := w.has(l, "a")
	leases, err := l.LockAll(a.Context(), []string{"a", "b"}) // a is had again
	w.must(err)
	on.Store(true)
	if err := leases.Unlock(w.Context()); err == nil {
		t.Error("b is said to be given back, and no node has heard of that")
	}
	on.Store(false)
	_ = a.Unlock(w.Context()) // it could not be renewed
}
