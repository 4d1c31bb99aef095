package quorum

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/test/poll"
)

// prying is a context of a caller's own type: whatever is asked of it, it needs the Locker.
type prying struct {
	context.Context
	w *world
	l *Locker
}

// free fails if whoever asks has a mutex of the Locker, or the turn to make contact.
func (p prying) free() {
	mutexes := []*sync.Mutex{&p.l.mu}
	for _, n := range p.l.nodes {
		mutexes = append(mutexes, &n.mu)
	}
	for _, mu := range mutexes {
		if !poll.Until(patience, mu.TryLock) {
			p.w.Error("a context is asked under a mutex")
			return
		}
		mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := p.l.Inspect(ctx, "y"); err != nil && !errors.Is(err, ErrUnreachable) { // the machine may stall
		p.w.Error(err)
	}
}

func (p prying) Deadline() (time.Time, bool) { p.free(); return p.Context.Deadline() }
func (p prying) Done() <-chan struct{}       { p.free(); return p.Context.Done() }
func (p prying) Err() error                  { p.free(); return p.Context.Err() }
func (p prying) Value(key any) any           { p.free(); return p.Context.Value(key) }

func TestACallersContextMayUseTheLockerWhateverItIsAsked(t *testing.T) {
	onBoth(t, func(w *world) {
		for _, parent := range []context.Context{context.Background(), w.Context()} { // never ends, could end
			l := w.locker()
			ctx := prying{parent, w, l}
			lease, err := l.Lock(ctx, "x")
			w.must(err)
			w.refused(ctx, l)
			w.must(w.reached(func() error { _, err := l.Inspect(ctx, "x"); return err }))
			w.until("it is listed", func() bool { // else a node with a vote was silent
				names := w.lists(ctx, l)
				if names != "x " && names != "" {
					t.Fatalf("%q", names)
				}
				return names != ""
			})
			_, err = l.Nodes(ctx)
			w.must(err)
			w.must(lease.Unlock(ctx))
			w.has(l, "x")
			tries := 0
			err = w.reached(func() error { tries++; return l.ForceUnlock(ctx, "x") })
			// One that was not answered may have ended it.
			if tries == 1 || !errors.Is(err, ErrNotHeld) {
				w.must(err)
			}
			w.is(w.reached(func() error { return l.Evict(ctx, "x", "nobody") }), ErrNotWaiting)
			w.must(l.Do(ctx, "x", func(context.Context, *Lease) error { return nil }))
			w.must(l.DoAll(ctx, []string{"x", "y"}, func(context.Context, *Leases) error { return nil }))
			w.must(l.Init(ctx))
			w.must(l.Shutdown(ctx))
		}
	})
}

func TestInitEndsWithItsContextAlsoWhereANodeIsSilent(t *testing.T) {
	w := realNodes(t, 3)
	w.servers[1].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	l := w.locker()
	began := time.Now()
	w.is(l.Init(ctx), context.DeadlineExceeded)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	w.servers[1].Resume()
	w.must(l.Close())
	var e *Error
	if err := l.Init(t.Context()); !errors.Is(err, ErrClosed) || !errors.As(err, &e) || e.Op != "init" {
		t.Error(err)
	}
}

// slow is a context of a caller's own type that takes its time.
type slow struct{ context.Context }

func (s slow) Deadline() (time.Time, bool) {
	time.Sleep(300 * time.Millisecond)
	return s.Context.Deadline()
}

func TestATryGivesTheNodesTheirTimeThoughItsContextTakesLongBefore(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "x")
		if _, err := l.TryLock(slow{h.Context()}, "y"); err != nil {
			h.Error(err)
		}
	})
}
