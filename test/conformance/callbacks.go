package conformance

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// These tests are about user code that the Locker calls, and about what that code does to the
// Locker.
var callbackTests = []test{
	{"a Logger that never returns keeps no context alive and holds nothing up", briefly(func(w *World) {
		never := newBlocked()
		w.loses(never, fairlock.WithLogger(slog.New(never)))
	})},
	{"an Observer that never returns keeps no context alive and holds nothing up", briefly(func(w *World) {
		never := newBlocked()
		w.loses(never, fairlock.WithObserver(never))
	})},
	{"an Observer that panics or ends its goroutine is told all that follows, in order", func(w *World) {
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			told := make(chan fairlock.Kind, 100)
			a := w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) {
				told <- e.Kind
				how()
			})))
			for range 3 {
				w.Unlock(w.Lock(a, "x"))
			}
			for range 3 {
				w.That(w.hears(told) == fairlock.Acquired && w.hears(told) == fairlock.Released, "not in order")
			}
			w.NoError(a.Close())
		}
	}},
	{"the Logger is told of a loss under a function of Do's that panics or ends the goroutine", func(w *World) {
		said := make(chan string, 100)
		b := w.Locker()
		a := w.Locker(fairlock.WithLogger(slog.New(handler(func(r slog.Record) { said <- r.Message }))))
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			for _, do := range []func(func()){
				func(f func()) {
					_ = a.Do(w.Context(), "x", func(context.Context, *fairlock.Lease) error { f(); return nil })
				},
				func(f func()) {
					_ = a.DoAll(w.Context(), []string{"x", "y"}, func(context.Context, *fairlock.Leases) error { f(); return nil })
				},
			} {
				w.bears("the call", func() {
					do(func() {
						w.NoError(b.ForceUnlock(w.Context(), "x"))
						how()
					})
				})
				for !strings.Contains(<-said, "did not return") { // else the test never ends
				}
			}
		}
	}},
	{"an Observer is told of a call without a function", func(w *World) {
		told := make(chan fairlock.Kind, 100)
		a := w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) { told <- e.Kind })))
		w.Is(a.Do(w.Context(), "x", nil), fairlock.ErrInvalid)
		w.Is(a.DoAll(w.Context(), []string{"x"}, nil), fairlock.ErrInvalid)
		for range 2 {
			w.That(w.hears(told) == fairlock.GaveUp, "something else is told")
		}
	}},
	{"a Logger that panics holds nothing up", func(w *World) {
		a := w.Locker(fairlock.WithLogger(slog.New(handler(func(slog.Record) { panic("the user's own") }))))
		lease := w.Lock(a, "x")
		w.NoError(a.ForceUnlock(w.Context(), "x"))
		w.Is(lease.Unlock(w.Context()), fairlock.ErrLost)
		w.Unlock(w.Lock(a, "x"))
		w.NoError(a.Close())
	}},
	{"a call whose OnQueued panics or ends its goroutine leaves nothing behind", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		for _, how := range []func(){func() { panic("the user's own") }, runtime.Goexit} {
			lease := w.Lock(a, "x")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_, _ = b.Lock(context.Background(), "x", fairlock.OnQueued(func(int) { how() }))
			}()
			w.closes(ended, "the goroutine")
			same := w.Queue(w.Context(), b, "x", 1)
			w.Unlock(lease)
			w.Unlock(w.Take(same))
			w.Unlock(w.Lock(c, "x"))
			w.That(w.InLine("x") == 0, "somebody is in line")
		}
	}},
	{"a hold that comes while OnQueued runs is given back if that panics", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		queued, goes := make(chan struct{}), make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			_, _ = b.Lock(context.Background(), "x", fairlock.OnQueued(func(int) {
				close(queued)
				<-goes
				panic("the user's own")
			}))
		}()
		w.closes(queued, "OnQueued")
		w.Unlock(lease)
		if !w.Plain {
			w.Until("it has the lock", func() bool { return w.admin.Exists(w.Context(), w.Record("x")).Val() == 1 })
		}
		close(goes)
		w.closes(ended, "the goroutine")
		w.Unlock(w.Lock(a, "x"))
	}},
	{"a lock that comes while OnQueued runs is given back by Close", func(w *World) {
		if w.Plain {
			return // a call in its OnQueued does not get a plain lock
		}
		rdb := w.Dial()
		a, b := w.Locker(), w.New(rdb, fairlock.WithLease(w.Lease))
		lease := w.Lock(a, "x")
		slow, goes := w.stays(b)
		w.Unlock(lease)
		w.prolonged("x")
		w.NoError(b.Close())
		w.NoError(rdb.Close())
		free, err := a.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Unlock(free)
		close(goes)
		w.Is((<-slow).Err, fairlock.ErrClosed)
	}},
	{"while a call's OnQueued runs, those of its process who wait for the plain lock have it", func(w *World) {
		if !w.Plain {
			return // the fair lock's line follows the order of the calls
		}
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		slow, goes := w.stays(b)
		w.Pass(1100 * time.Millisecond) // from now on this call comes before all others of its process
		w.Unlock(lease)
		w.Unlock(w.Take(w.calls(func() (*fairlock.Lease, error) { return b.Lock(w.Context(), "x") })))
		again, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		close(goes)
		w.That(len(slow) == 0, "two have the lock")
		w.Unlock(again)
		w.Unlock(w.Take(slow))
	}},
	{"Close returns in every callback", func(w *World) {
		for name, run := range closings {
			returned := make(chan struct{})
			run(w, func(l Locker) {
				_ = l.Close()
				close(returned)
			})
			w.closes(returned, name)
		}
	}},
	{"no Lease is given by a Locker that is closed", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		slow, goes := w.stays(b)
		w.Unlock(lease)
		if !w.Plain {
			w.Until("it has the lock", func() bool { return w.expiry("x") > 0 })
			w.prolonged("x")
		}
		w.NoError(b.Close())
		close(goes)
		w.Is(w.Wait(slow).Err, fairlock.ErrClosed)
		w.Unlock(w.Lock(a, "x"))
	}},
	{"of many calls that are under way when their Locker is closed none gives a Lease whose context lives on", func(w *World) {
		for n := range 20 {
			l := w.Locker()
			busy, ends := make(chan struct{}), new(atomic.Bool)
			var all sync.WaitGroup
			var had atomic.Int64
			last := make([]*fairlock.Lease, 32)
			for i := range last {
				all.Go(func() {
					for !ends.Load() {
						lease, err := l.Lock(context.Background(), string(rune('a'+i%4)))
						if errors.Is(err, fairlock.ErrClosed) {
							return
						}
						w.NoError(err)
						if last[i] = lease; ends.Load() {
							return // and keeps the lock
						}
						_ = lease.Unlock(context.Background()) // the Unlock may hear of the end
						if had.Add(1) == int64(20+n) {
							close(busy)
						}
					}
				})
			}
			<-busy
			ends.Store(true)
			w.NoError(l.Close())
			all.Wait()
			for _, lease := range last {
				w.That(lease.Err() != nil && lease.Context().Err() != nil, "a lease outlives its Locker: %v", lease.Err())
				_ = lease.Unlock(context.Background())
			}
		}
	}},
}

// loses has a Locker lose one of its two locks, while its user's code never returns.
func (w *World) loses(never *blocked, option fairlock.Option) {
	lease := w.calm()
	a := w.Locker(option, fairlock.WithLease(lease))
	x, y := w.Lock(a, "x"), w.Lock(a, "y")
	w.NoError(w.admin.Del(w.Context(), w.Record("x")).Err())
	w.closes(x.Done(), "the context of what is lost")
	w.closes(never.called, "the user's code")
	w.Is(x.Err(), fairlock.ErrLost)
	w.Is(x.Unlock(w.Context()), fairlock.ErrLost)
	w.Pass(2 * lease)
	w.NoError(y.Err())
	w.Unlock(y)
	w.Unlock(w.Lock(a, "x"))
	w.NoError(a.Close())
	close(never.goes)
}

// closings call Close from each kind of callback.
var closings = map[string]func(w *World, closes func(Locker)){
	"OnQueued": func(w *World, closes func(Locker)) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		_, err := b.Lock(w.Context(), "x", fairlock.OnQueued(func(int) { closes(b) }))
		w.Is(err, fairlock.ErrClosed)
		w.Unlock(lease)
	},
	"Do": func(w *World, closes func(Locker)) {
		a := w.Locker()
		w.NoError(a.Do(w.Context(), "x", func(context.Context, *fairlock.Lease) error {
			closes(a)
			return nil
		}))
	},
	"AfterFunc": func(w *World, closes func(Locker)) {
		a := w.Locker()
		lease := w.Lock(a, "x")
		context.AfterFunc(lease.Context(), func() { closes(a) })
		w.NoError(a.ForceUnlock(w.Context(), "x"))
	},
	"Observe(Lost)": func(w *World, closes func(Locker)) {
		var a Locker
		a = w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) {
			if e.Kind == fairlock.Lost {
				closes(a)
			}
		})))
		lease := w.Lock(a, "x")
		w.NoError(w.admin.Del(w.Context(), w.Record("x")).Err())
		w.Pass(w.Lease)
		runtime.KeepAlive(lease) // a dropped lease would be reported from outside the bubble
	},
	"Observe(Renewed)": func(w *World, closes func(Locker)) {
		var a Locker
		var once sync.Once
		a = w.Locker(fairlock.WithObserver(observer(func(e fairlock.Event) {
			if e.Kind == fairlock.Renewed {
				once.Do(func() { closes(a) })
			}
		})))
		lease := w.Lock(a, "x")
		w.closes(lease.Done(), "the lease")
		w.NoError(lease.Unlock(w.Context()))
	},
	"the Logger": func(w *World, closes func(Locker)) {
		var a Locker
		a = w.Locker(fairlock.WithLogger(slog.New(handler(func(slog.Record) { closes(a) }))))
		lease := w.Lock(a, "x")
		w.NoError(a.ForceUnlock(w.Context(), "x"))
		runtime.KeepAlive(lease) // for the same reason
	},
}

// blocked is a Logger and an Observer that block until the test ends.
type blocked struct {
	handler
	called, goes chan struct{}
	once         sync.Once
}

func newBlocked() *blocked {
	b := &blocked{called: make(chan struct{}), goes: make(chan struct{})}
	b.handler = func(slog.Record) { b.blocks() }
	return b
}

func (b *blocked) Observe(e fairlock.Event) {
	if e.Kind == fairlock.Lost {
		b.blocks()
	}
}

func (b *blocked) blocks() {
	b.once.Do(func() { close(b.called) })
	<-b.goes
}

// observer and handler turn functions into an Observer and a Handler.
type (
	observer func(fairlock.Event)
	handler  func(slog.Record)
)

func (o observer) Observe(e fairlock.Event)                     { o(e) }
func (h handler) Enabled(context.Context, slog.Level) bool      { return true }
func (h handler) Handle(_ context.Context, r slog.Record) error { h(r); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h handler) WithGroup(string) slog.Handler                 { return h }

// stays has a call wait for x, with an OnQueued that runs until goes is closed.
func (w *World) stays(l Locker) (slow <-chan Outcome, goes chan struct{}) {
	w.Helper()
	return w.staysIn(func(o fairlock.LockOption) (*fairlock.Lease, error) { return l.Lock(context.Background(), "x", o) })
}

// staysIn has a call wait with an OnQueued that runs until goes is closed.
func (w *World) staysIn(call func(fairlock.LockOption) (*fairlock.Lease, error)) (slow <-chan Outcome, goes chan struct{}) {
	w.Helper()
	queued, goes := make(chan struct{}), make(chan struct{})
	slow = w.calls(func() (*fairlock.Lease, error) {
		return call(fairlock.OnQueued(func(int) {
			close(queued)
			<-goes
		}))
	})
	w.closes(queued, "OnQueued")
	return slow, goes
}

// hears returns the next event.
func (w *World) hears(told <-chan fairlock.Kind) fairlock.Kind {
	w.Helper()
	select {
	case kind := <-told:
		return kind
	case <-time.After(20 * time.Second):
		w.Fatal("it is told nothing more")
		return 0
	}
}

// closes waits until a channel is closed.
func (w *World) closes(c <-chan struct{}, what string) {
	w.Helper()
	select {
	case <-c:
	case <-time.After(2*w.Lease + 20*time.Second):
		w.Fatalf("%s does not end", what)
	}
}

// calls makes a call in the background.
func (w *World) calls(call func() (*fairlock.Lease, error)) <-chan Outcome {
	result := make(chan Outcome, 1)
	go func() {
		lease, err := call()
		result <- Outcome{Lease: lease, Err: err}
	}()
	return result
}
