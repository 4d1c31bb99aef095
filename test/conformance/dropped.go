package conformance

import (
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/fairlock/locks/fairlock"
)

var droppedTests = []test{
	{"a Lease that is dropped without Unlock is not renewed, and the Logger is told", briefly(func(w *World) {
		var told atomic.Bool
		a := w.Locker(fairlock.WithLogger(slog.New(handler(func(r slog.Record) {
			if strings.Contains(r.Message, "dropped without Unlock") {
				told.Store(true)
			}
		}))))
		w.Lock(a, "x")
		w.Until("the Logger is told", func() bool {
			runtime.GC()
			return told.Load()
		})
		w.Unlock(w.Lock(w.Locker(lasting), "x"))
	})},
	{"a closed Locker stays in memory for no Lease that was not unlocked", briefly(func(w *World) {
		w.collects(func(u *user) { u.lease = w.Lock(u.locker, "x") })
		w.Pass(w.Lease) // it was not given back
	})},
	{"a closed Locker stays in memory for no Lease that was lost", func(w *World) {
		w.collects(func(u *user) {
			u.lease = w.Lock(u.locker, "x", fairlock.LeaseFor(w.Lease/2))
			<-u.lease.Done()
		})
	}},
}

// user has a Locker and a Lease. It is the Locker's Observer: so the Locker reaches the Lease.
type user struct {
	locker Locker
	lease  *fairlock.Lease
}

func (u *user) Observe(fairlock.Event) {}

// collects fails unless a user is garbage-collected when its Locker was closed.
func (w *World) collects(uses func(*user)) {
	w.Helper()
	rest := func() weak.Pointer[user] {
		u, rdb := new(user), w.Dial()
		u.locker = w.New(rdb, fairlock.WithLease(w.Lease), fairlock.WithObserver(u), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
		uses(u)
		w.NoError(u.locker.Close())
		w.NoError(rdb.Close())
		return weak.Make(u)
	}()
	w.Until("the garbage collector frees it", func() bool {
		runtime.GC()
		return rest.Value() == nil
	})
}
