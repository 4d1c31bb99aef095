package world

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// User is a Locker with a client of its own, as every process has.
type User struct {
	fairlock.Interface
	f      *Faulty
	Client redis.UniversalClient
}

// Behind returns a user behind the proxy. Its client does not wait long for a lost reply, and a
// test can wait for its lease to be renewed.
func (f *Faulty) Behind(options ...fairlock.Option) *User {
	f.Helper()
	return f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: 300 * time.Millisecond}, options...)
}

// Patient is Behind with a client that waits for replies. While a test holds a request back, the
// client does not give the request up and ask again.
func (f *Faulty) Patient(options ...fairlock.Option) *User {
	f.Helper()
	return f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: Patience}, options...)
}

// Beside returns a user that bypasses the proxy.
func (f *Faulty) Beside(options ...fairlock.Option) *User {
	f.Helper()
	return f.User(&redis.Options{Addr: f.Addr}, options...)
}

// User returns a user with a client of these options.
func (f *Faulty) User(o *redis.Options, options ...fairlock.Option) *User {
	f.Helper()
	return f.With(redis.NewClient(o), options...)
}

// With returns a user with this client.
func (f *Faulty) With(rdb redis.UniversalClient, options ...fairlock.Option) *User {
	f.Helper()
	logger := fairlock.WithLogger(slog.New(slog.NewTextHandler(f.Output(), nil)))
	u := &User{f.kind(rdb, append([]fairlock.Option{logger}, options...)...), f, rdb}
	f.users = append(f.users, u)
	return u
}

// Locks takes a lock that is free.
func (u *User) Locks(name string, options ...fairlock.LockOption) *fairlock.Lease {
	u.f.Helper()
	return u.Asks(background, name, options...).Gets()
}

// Queues waits in line. It returns when the server has n tickets in line, this one the last of
// them.
func (u *User) Queues(name string, n int, options ...fairlock.LockOption) *Wait {
	u.f.Helper()
	w := u.Asks(background, name, options...)
	w.InLine(n)
	return w
}

// WaitsPlainly returns a call that was told that it waits. Nothing on the server shows who waits
// for a plain lock.
func (u *User) WaitsPlainly(name string, options ...fairlock.LockOption) *Wait {
	u.f.Helper()
	queued := make(chan struct{})
	told := sync.OnceFunc(func() { close(queued) })
	options = append(options, fairlock.OnQueued(func(int) { told() }))
	w := u.Asks(background, name, options...)
	select {
	case <-queued:
	case <-time.After(Patience):
		u.f.Fatal("it does not wait")
	}
	return w
}

// Asks calls Lock in the background.
func (u *User) Asks(ctx context.Context, name string, options ...fairlock.LockOption) *Wait {
	ctx, cancel := context.WithCancel(ctx)
	w := &Wait{f: u.f, Name: name, Cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(w.done)
		began := time.Now()
		w.Lease, w.Err = u.Lock(ctx, name, options...)
		w.At = time.Now()
		w.Took = w.At.Sub(began)
		if w.Lease != nil {
			u.f.Took(w.Lease)
		}
	}()
	return w
}
