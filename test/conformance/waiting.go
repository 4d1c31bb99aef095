package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
)

var waitingTests = []test{
	{"a free lock is had at once and trusted for nearly its lease", func(w *World) {
		l := w.Locker()
		before := time.Now()
		lease := w.Lock(l, "x")
		took := time.Since(before)
		w.That(!w.Fake || took < 100*time.Millisecond, "it took %v", took)
		w.That(lease.Err() == nil && lease.Token() > 0 && lease.Owner() != "" && lease.Name() == "x", "lease %+v", lease)
		// The request went out at some time between the two.
		asked, left := lease.Deadline().Sub(before), time.Until(lease.Deadline())
		w.That(asked > w.Lease/2 && left < w.Lease, "trusted for %v, %v of them left, of %v", asked, left, w.Lease)
		w.Unlock(lease)
	}},
	{"the lock goes to those who wait, in the order in which they came if there is one, over all clients, with growing tokens", func(w *World) {
		clients := []Locker{w.Locker(), w.Locker(), w.Locker()}
		holder := w.Lock(clients[0], "x")
		last := holder.Token()
		var line []<-chan Outcome
		for i := range 12 {
			line = append(line, w.Queue(w.Context(), clients[i%3], "x", i+1))
		}
		w.Unlock(holder)
		for _, lease := range w.Serve(line...) {
			w.That(lease.Token() > last, "token %d after %d", lease.Token(), last)
			last = lease.Token()
		}
	}},
	{"TryLock says who has it and for how long and never joins the line", func(w *World) {
		a, b := w.Locker(), w.Locker()
		before := time.Now()
		lease := w.Lock(a, "x")
		_, err := b.TryLock(w.Context(), "x")
		var held *fairlock.HeldError
		w.That(errors.As(err, &held) && errors.Is(err, fairlock.ErrHeld), "got %v", err)
		w.That(held.Owner == lease.Owner(), "got %+v", held)
		w.remains(held.Remaining, w.Lease, before)
		w.That(w.InLine("x") == 0, "it joined the line")
		w.Unlock(lease)
		again, err := b.TryLock(w.Context(), "x")
		w.NoError(err)
		w.Unlock(again)
	}},
	{"TryLock does not overtake who waits", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		next := w.Queue(w.Context(), b, "x", 1)
		w.Unlock(lease)
		if stolen, err := c.TryLock(w.Context(), "x"); err == nil {
			w.That(w.Plain, "overtaken")
			w.Unlock(stolen)
		}
		w.Unlock(w.Take(next))
	}},
	{"a wait that ends with its context says where it stood, leaves the line and stalls nobody", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		ctx, cancel := context.WithCancelCause(w.Context())
		first := w.Queue(ctx, b, "x", 1)
		second := w.Queue(w.Context(), c, "x", 2)
		why := errors.New("the request was withdrawn")
		cancel(why)
		err := w.Wait(first).Err
		var wait *fairlock.WaitError
		w.That(errors.As(err, &wait) && wait.Position == 1, "got %v", err)
		w.Is(err, context.Canceled)
		w.Is(err, why)
		w.Until("it left", func() bool { return w.InLine("x") == 1 })
		w.Unlock(lease)
		w.Unlock(w.Take(second))
	}},
	{"WaitAtMost bounds the waiting and not the lease", func(w *World) {
		a, b := w.Locker(), w.Locker()
		w.Unlock(w.Lock(b, "{x}y")) // a Locker's first look at the server would count as waiting too
		lease := w.Lock(a, "x")
		_, err := b.Lock(w.Context(), "x", fairlock.WaitAtMost(w.answered(200*time.Millisecond)))
		var held *fairlock.HeldError
		w.That(errors.As(err, &held) && held.Owner == lease.Owner(), "got %v", err)
		_, err = b.Lock(w.Context(), "x", fairlock.WaitAtMost(0))
		w.Is(err, fairlock.ErrHeld)
		w.Until("nobody waits", func() bool { return w.InLine("x") == 0 })
		w.Unlock(lease)
		w.Unlock(w.Lock(b, "x", fairlock.WaitAtMost(0)))
	}},
	{"a full line refuses at once and those in it are served", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		first := w.Queue(w.Context(), b, "x", 1, fairlock.MaxWaiters(2))
		second := w.Queue(w.Context(), b, "x", 2, fairlock.MaxWaiters(2))
		_, err := b.Lock(w.Context(), "x", fairlock.MaxWaiters(2))
		w.Is(err, fairlock.ErrQueueFull)
		w.Unlock(lease)
		w.Serve(first, second)
	}},
	{"a cancelled wait gives back a grant that came at the same moment", func(w *World) {
		a, b, c := w.Locker(), w.Locker(), w.Locker()
		for range 50 {
			lease := w.Lock(a, "x")
			ctx, cancel := context.WithCancel(w.Context())
			first := w.Queue(ctx, b, "x", 1)
			second := w.Queue(w.Context(), c, "x", 2)
			go cancel()
			w.Unlock(lease)
			if o := w.Wait(first); o.Err == nil {
				w.Unlock(o.Lease)
			}
			w.Unlock(w.Take(second))
		}
	}},
	{"a waiter hears of its turn even where its subscription cannot be seen yet", func(w *World) {
		// This is every Locker's first wait: it enters before its subscription is up.
		for range 5 {
			a, b := w.Locker(), w.Locker()
			lease := w.Lock(a, "x")
			next := w.Queue(w.Context(), b, "x", 1)
			w.Unlock(lease)
			w.Unlock(w.Take(next))
		}
	}},
	{"names with and without braces are one lock, others are not", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		_, err := b.TryLock(w.Context(), "{x}")
		w.Is(err, fairlock.ErrHeld)
		other, err := b.TryLock(w.Context(), "{x}:other")
		w.NoError(err)
		w.Unlock(other)
		w.Unlock(lease)
	}},
	{"inspection shows the holder and the line in order", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x", fairlock.Note("nightly: run 7"))
		first := w.Queue(w.Context(), b, "x", 1, fairlock.Note("first"))
		second := w.Queue(w.Context(), b, "x", 2, fairlock.WithOwner("saga 7"), fairlock.Note("second"))
		s, err := a.Inspect(w.Context(), "x")
		w.NoError(err)
		w.That(s.Holder != nil && s.Holder.Owner == lease.Owner() && s.Holder.Token == lease.Token() && s.Holder.Depth == 1 &&
			s.Holder.Note == "nightly: run 7" && s.Holder.Remaining > 0 && s.Token == lease.Token(), "holder %+v", s.Holder)
		if !w.Plain {
			w.That(s.Waiting == 2 && len(s.Waiters) == 2 && s.Waiters[0].Note == "first" && s.Waiters[1].Owner == "saga 7", "line %+v", s.Waiters)
		}
		w.Unlock(lease)
		w.Serve(first, second)
	}},
	{"the list shows what is held or waited for, and not what is not", func(w *World) {
		a, b := w.Locker(), w.Locker()
		held := []*fairlock.Lease{w.Lock(a, "x"), w.Lock(b, "{x}"+":y"), w.Lock(a, "z [*]", fairlock.Note("why"))}
		next := w.Queue(w.Context(), b, "x", 1)
		w.Unlock(w.Lock(a, "done"))
		w.Unlock(w.Lock(w.Locker(fairlock.WithPrefix("other")), "x"))
		seen := make(map[string]*fairlock.State)
		for s, err := range a.List(w.Context()) {
			w.NoError(err)
			w.That(seen[s.Name] == nil, "twice: %s", s.Name)
			seen[s.Name] = s
		}
		w.That(len(seen) == len(held), "shown: %v", seen)
		for _, l := range held {
			s := seen[l.Name()]
			w.That(s != nil && s.Holder != nil && s.Holder.Owner == l.Owner() && s.Holder.Token == l.Token(), "%s: %+v", l.Name(), s)
		}
		w.That(seen["z [*]"].Holder.Note == "why", "%+v", seen["z [*]"].Holder)
		w.That(w.Plain || seen["x"].Waiting == 1, "%+v", seen["x"])
		for _, err := range a.List(w.Context()) {
			w.NoError(err)
			break // the loop may stop at any time
		}
		for _, l := range held {
			w.Unlock(l)
		}
		w.Serve(next)
	}},
	{"a forced holder is told why, and the next one has the lock", func(w *World) {
		a, b, admin := w.Locker(), w.Locker(), w.Locker()
		w.Is(admin.ForceUnlock(w.Context(), "x"), fairlock.ErrNotHeld)
		lease := w.Lock(a, "x")
		next := w.Queue(w.Context(), b, "x", 1)
		w.NoError(admin.ForceUnlock(w.Context(), "x"))
		got := w.Take(next)
		<-lease.Done()
		w.Is(lease.Err(), fairlock.ErrLost)
		w.That(strings.Contains(lease.Err().Error(), "an administrator forced it"), "why: %v", lease.Err())
		w.That(got.Token() > lease.Token()+1, "token %d after the forced %d", got.Token(), lease.Token())
		w.Is(lease.Unlock(w.Context()), fairlock.ErrLost)
		w.NoError(got.Err())
		w.Unlock(got)
	}},
	{"a waiting call is told its position", func(w *World) {
		a, b := w.Locker(), w.Locker()
		lease := w.Lock(a, "x")
		first := w.Queue(w.Context(), b, "x", 1)
		positions := make(chan int, 10)
		result := make(chan Outcome, 1)
		go func() {
			l, err := b.Lock(w.Context(), "x", fairlock.OnQueued(func(n int) { positions <- n }))
			result <- Outcome{Lease: l, Err: err}
		}()
		w.That(<-positions == 2, "not the second")
		w.Unlock(lease)
		if !w.Plain {
			l := w.Take(first)
			if w.Fake {
				w.That(<-positions == 1, "not the first now")
			}
			w.Unlock(l)
			w.Serve(result)
			return
		}
		w.Serve(first, result)
	}},
}
