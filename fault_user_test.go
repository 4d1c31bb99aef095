package fairlock_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// faultUser is a Locker with a client of its own, as every process has.
type faultUser struct {
	fairlock.Interface
	f   *faulty
	rdb *redis.Client
}

// behind is a user behind the proxy, whose client does not wait long for a lost reply. Its lease is one that a test
// can see renewed.
func (f *faulty) behind(options ...fairlock.Option) *faultUser {
	f.Helper()
	return f.user(&redis.Options{Addr: f.proxy.Addr(), ReadTimeout: 300 * time.Millisecond}, options...)
}

// beside is a user whom the proxy does not touch.
func (f *faulty) beside(options ...fairlock.Option) *faultUser {
	f.Helper()
	return f.user(&redis.Options{Addr: f.addr}, options...)
}

func (f *faulty) user(o *redis.Options, options ...fairlock.Option) *faultUser {
	f.Helper()
	return f.with(redis.NewClient(o), options...)
}

func (f *faulty) with(rdb *redis.Client, options ...fairlock.Option) *faultUser {
	f.Helper()
	logger := fairlock.WithLogger(slog.New(slog.NewTextHandler(f.Output(), nil)))
	u := &faultUser{f.kind(rdb, append([]fairlock.Option{logger}, options...)...), f, rdb}
	f.users = append(f.users, u)
	return u
}

// locks takes a lock that is free.
func (u *faultUser) locks(name string, options ...fairlock.LockOption) *fairlock.Lease {
	u.f.Helper()
	return u.asks(faultCtx, name, options...).gets()
}

// queues waits in line; when it returns the server has it in line, as the last of n.
func (u *faultUser) queues(name string, n int, options ...fairlock.LockOption) *faultWait {
	u.f.Helper()
	w := u.asks(faultCtx, name, options...)
	w.inLine(n)
	return w
}

// asks calls Lock in the background.
func (u *faultUser) asks(ctx context.Context, name string, options ...fairlock.LockOption) *faultWait {
	ctx, cancel := context.WithCancel(ctx)
	w := &faultWait{f: u.f, name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(w.done)
		began := time.Now()
		w.lease, w.err = u.Lock(ctx, name, options...)
		w.at = time.Now()
		w.took = w.at.Sub(began)
		if w.lease != nil {
			u.f.took(w.lease)
		}
	}()
	return w
}

// faultWait is a call of Lock.
type faultWait struct {
	f      *faulty
	name   string
	cancel context.CancelFunc // of its context

	done  chan struct{} // closed when it has returned; what follows is then final
	lease *fairlock.Lease
	err   error
	at    time.Time
	took  time.Duration
}

// inLine returns when the server has n in line.
func (w *faultWait) inLine(n int) {
	w.f.Helper()
	w.f.until("it is in line", func() bool { return w.f.line(w.name) == n || w.hasReturned() })
	w.waits()
}

func (w *faultWait) hasReturned() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// waits fails if the call has returned.
func (w *faultWait) waits() {
	w.f.Helper()
	if w.hasReturned() {
		w.f.Fatalf("it did not wait: %v, %v", w.lease, w.err)
	}
}

// end is the call's error, or that it does not return.
func (w *faultWait) end() error {
	timer := time.NewTimer(faultPatience)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		return fmt.Errorf("it has not returned after %v; on the server:\n%s", faultPatience, w.f.dump())
	}
}

func (w *faultWait) gets() *fairlock.Lease {
	w.f.Helper()
	if err := w.end(); err != nil {
		w.f.Fatalf("Lock: %v; on the server:\n%s", err, w.f.dump())
	}
	return w.lease
}

func (w *faultWait) fails() error {
	w.f.Helper()
	err := w.end()
	if err == nil {
		w.f.Fatalf("Lock of %q succeeded", w.name)
	}
	return err
}

// took notes a lease, and fails the test if another one trusts the same lock at the same time: it was trusted at some
// instant between two at which this one was.
func (f *faulty) took(lease *fairlock.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.leases {
		if other.Name() == lease.Name() && lease.Err() == nil && other.Err() == nil && lease.Err() == nil {
			f.Errorf("%q is trusted by %s with token %d and by %s with token %d", lease.Name(),
				other.Owner(), other.Token(), lease.Owner(), lease.Token())
		}
	}
	f.leases = append(f.leases, lease)
}

// oldest is the first lease that the test was handed and has not unlocked.
func (f *faulty) oldest() *fairlock.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leases[0]
}

// ends takes a lease out of those that are watched: its Unlock is about to be called.
func (f *faulty) ends(lease *fairlock.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases = slices.DeleteFunc(f.leases, func(l *fairlock.Lease) bool { return l == lease })
}

// unlocks fails unless the lock is released cleanly.
func (f *faulty) unlocks(lease *fairlock.Lease) {
	f.Helper()
	f.ends(lease)
	if err := lease.Unlock(faultCtx); err != nil {
		f.Fatalf("Unlock: %v; on the server:\n%s", err, f.dump())
	}
}

// keeps fails unless the lease is trusted and the server has it.
func (f *faulty) keeps(lease *fairlock.Lease) {
	f.Helper()
	if err := lease.Err(); err != nil {
		f.Fatalf("it is not trusted: %v", err)
	}
	if got := f.holder(lease.Name()); got != lease.Token() {
		f.Fatalf("the record has token %d, and not %d", got, lease.Token())
	}
}

// pass returns when each of the waiters has had the lock and given it to the next, in whatever order.
func (f *faulty) pass(waits ...*faultWait) {
	f.Helper()
	var all sync.WaitGroup
	for _, w := range waits {
		all.Go(w.passesOn)
	}
	all.Wait()
}

// served fails unless the waiters get the lock in this order. Each gives it to the next.
func (f *faulty) served(waits ...*faultWait) {
	f.Helper()
	f.pass(waits...)
	if !f.Failed() && !slices.IsSortedFunc(waits, func(a, b *faultWait) int { return cmp.Compare(a.lease.Token(), b.lease.Token()) }) {
		for i, w := range waits {
			f.Logf("number %d came with token %d", i, w.lease.Token())
		}
		f.Error("the lock was not given in the order in which it was asked for")
	}
}

// passesOn unlocks as soon as the call has the lock.
func (w *faultWait) passesOn() {
	if err := w.end(); err != nil {
		w.f.Errorf("Lock of %q: %v", w.name, err)
		return
	}
	w.f.ends(w.lease)
	if err := w.lease.Unlock(faultCtx); err != nil {
		w.f.Errorf("Unlock of %q: %v", w.name, err)
	}
}
