package conformance

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/nosy"
)

// These tests are about hooks of the client, which are user code, too.
var hookTests = []test{
	{"a hook of the client's that panics or ends the goroutine leaves nothing", func(w *World) {
		for _, panics := range []bool{false, true} {
			for _, sent := range []bool{false, true} {
				for _, ctx := range []context.Context{context.Background(), w.Context()} {
					for n := range int32(3) { // the request for the lock, its release, and nothing
						w.hooked(ctx, &untimelyHook{panics: panics, sent: sent}, n)
					}
				}
			}
		}
	}},
	{"a waiter goes on though a hook of the client's ends the goroutine that asks for it", func(w *World) {
		for n := range int32(3) {
			h := new(untimelyHook)
			a, b := w.hookedLocker(h), w.Locker()
			w.Unlock(w.Lock(a, "y")) // the first contact
			held := w.Lock(b, "x")
			h.left.Store(n + 1)
			next := w.Queue(w.Context(), a, "x", 1)
			w.Pass(w.brief / 2)
			w.Unlock(held)
			h.left.Store(0)
			w.Unlock(w.Take(next))
			w.NoError(a.Close())
			w.NoError(b.Close())
		}
	}},
	{"several locks are had and given back though a hook of the client's ends the goroutine of their one write", func(w *World) {
		for _, sent := range []bool{false, true} {
			for n := range int32(3) { // the write of the LockAll, that of the Unlock, and none
				h := &untimelyHook{sent: sent}
				a, b := w.hookedLocker(h, lasting), w.Locker(lasting)
				w.Unlock(w.Lock(a, "y")) // the first contact
				h.left.Store(n + 1)
				w.bears("the call", func() {
					all, err := a.LockAll(w.Context(), []string{"x", "y", "z"})
					w.NoError(err)
					w.NoError(all.Unlock(w.Context()))
				})
				h.left.Store(0)
				all, err := b.LockAll(w.Context(), []string{"x", "y", "z"}, fairlock.WaitAtMost(longBefore))
				w.NoError(err)
				w.NoError(all.Unlock(w.Context()))
				w.NoError(a.Close())
				w.NoError(b.Close())
			}
		}
	}},
	{"an error of a hook's own type may use the lock, or panic, whatever it is asked", briefly(func(w *World) {
		for n := range int32(4) {
			for _, panics := range []bool{false, true} {
				w.bearsErrors(n, panics)
			}
		}
	})},
}

// A lock that is given back is had long before its lease ends. Where time is real, a busy machine
// may take a while.
const longBefore = 20 * time.Second

var lasting = fairlock.WithLease(30 * time.Second)

// bearsErrors fails unless calls end and a lock is free soon after one of their scripts has failed
// with an error that uses the lock or panics: the one after the nth.
func (w *World) bearsErrors(n int32, panics bool) {
	w.Helper()
	h := new(nosy.Hook)
	a, b := w.hookedLocker(h), w.Locker(lasting)
	w.Unlock(w.Lock(a, "y", fairlock.LeaseFor(w.calm()))) // the first contact
	h.Asked = func() {
		if panics {
			panic("the error's own")
		}
		if lease, err := a.TryLock(w.Context(), "z"); err == nil {
			_ = lease.Unlock(w.Context()) // another may have ended it
		}
	}
	w.bears("calls with such errors", func() {
		for _, call := range []func(context.Context, string, ...fairlock.LockOption) (*fairlock.Lease, error){a.Lock, a.TryLock} {
			for _, ctx := range []context.Context{context.Background(), w.Context()} {
				h.Fails(n+1, 1+n%2*3) // a request that is repeated fails again
				if lease, err := call(ctx, "x"); err == nil {
					if ctx.Done() == nil {
						w.Pass(w.Lease / 2) // for a renewal
					}
					_ = lease.Unlock(ctx) // its request may be the one that fails
					_, _, _ = lease.Err(), lease.Deadline(), lease.Extend(ctx, w.Lease)
					_ = lease.Unlock(ctx)
				} else {
					_ = err.Error()
				}
				h.Fails(1, 0)
			}
		}
	})
	w.NoError(a.Close())
	w.Unlock(w.Lock(b, "x"))
	w.NoError(b.Close())
}

// hooked fails unless a lock is free soon after calls whose client has a hook that ends one of
// their requests: the nth.
func (w *World) hooked(ctx context.Context, h *untimelyHook, n int32) {
	w.Helper()
	a, b := w.hookedLocker(h, lasting), w.Locker(lasting)
	w.Unlock(w.Lock(a, "y")) // the first contacts may take long
	w.Unlock(w.Lock(b, "y"))
	for _, call := range []func(context.Context, string, ...fairlock.LockOption) (*fairlock.Lease, error){a.Lock, a.TryLock} {
		h.left.Store(n + 1)
		w.bears("the call", func() {
			if lease, err := call(ctx, "x"); err == nil {
				_ = lease.Unlock(ctx)
			}
		})
		h.left.Store(0)
		lease, err := b.Lock(w.Context(), "x", fairlock.WaitAtMost(longBefore))
		w.NoError(err)
		w.Unlock(lease)
	}
	w.NoError(a.Close())
	w.NoError(b.Close())
}

// untimelyHook ends the goroutine in which a script, or several in one write, is sent, before or
// after that, once it has seen so many writes. It panics only in a goroutine of the test's that
// bears it.
type untimelyHook struct {
	panics, sent bool
	left         atomic.Int32 // 0: none any more
}

func (h *untimelyHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *untimelyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.sends(cmd, func() error { return next(ctx, cmd) })
	}
}

func (h *untimelyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		return h.sends(all[0], func() error { return next(ctx, all) })
	}
}

// sends has one write sent, which begins with that command.
func (h *untimelyHook) sends(first redis.Cmder, send func() error) error {
	acts := strings.HasPrefix(first.Name(), "eval") && h.left.Load() > 0 && h.left.Add(-1) == 0
	if acts && !h.sent {
		h.acts()
	}
	err := send()
	if acts {
		h.acts()
	}
	return err
}

func (h *untimelyHook) acts() {
	stack := make([]byte, 1<<16)
	if h.panics && strings.Contains(string(stack[:runtime.Stack(stack, false)]), "conformance.(*World).bears") {
		panic("the hook's own")
	}
	runtime.Goexit()
}
