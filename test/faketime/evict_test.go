package faketime

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/world"
)

// waiting has a call wait, and returns a channel for its outcome.
func (b *bubble) waiting(l *fairlock.Locker, options ...fairlock.LockOption) <-chan conformance.Outcome {
	b.Helper()
	result := world.InBackground(l, "x", options...)
	synctest.Wait()
	return result
}

// waiters returns the line as Inspect shows it.
func (b *bubble) waiters(l *fairlock.Locker) []fairlock.Waiter {
	b.Helper()
	state, err := l.Inspect(b.Context(), "x")
	if err != nil {
		b.Fatal(err)
	}
	return state.Waiters
}

func (b *bubble) serves(result <-chan conformance.Outcome) {
	b.Helper()
	r := <-result
	if r.Err != nil {
		b.Fatal(r.Err)
	}
	if err := r.Lease.Unlock(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func TestAnEvictedCallReturnsAndNobodyElseNotices(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		c, _ := b.client()
		lease := b.lock(a)
		first, second, third := b.waiting(c), b.waiting(c, fairlock.Note("stuck")), b.waiting(c)
		line := b.waiters(a)
		if len(line) != 3 || line[1].Note != "stuck" {
			b.Fatalf("%+v", line)
		}
		if err := a.Evict(b.Context(), "x", line[1].ID); err != nil {
			b.Fatal(err)
		}
		var why *fairlock.Error
		if err := (<-second).Err; !errors.Is(err, fairlock.ErrEvicted) || !errors.As(err, &why) || why.Name != "x" {
			b.Fatalf("got %v", err)
		}
		if err := a.Evict(b.Context(), "x", line[1].ID); !errors.Is(err, fairlock.ErrNotWaiting) {
			b.Fatalf("again: %v", err)
		}
		if line = b.waiters(a); len(line) != 2 {
			b.Fatalf("%+v", line)
		}
		if err := lease.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.serves(first)
		b.serves(third)
	})
}

func TestAnEvictedCallThatIsOutOfReachLearnsItByItsNextHeartbeat(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		c, network := b.client()
		lease := b.lock(a)
		result := b.waiting(c)
		time.Sleep(time.Second) // its subscription is up
		network.stop()
		if err := a.Evict(b.Context(), "x", b.waiters(a)[0].ID); err != nil {
			b.Fatal(err)
		}
		network.breaks() // and loses the message
		network.resume()
		if err := (<-result).Err; !errors.Is(err, fairlock.ErrEvicted) {
			b.Fatalf("got %v", err)
		}
		if line := b.waiters(a); len(line) != 0 {
			b.Fatalf("%+v", line)
		}
		if err := lease.Unlock(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}

func TestWhoeverHoldsTheLockIsNoWaiterToEvict(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		lease := b.lock(a)
		for _, id := range []string{lease.Owner(), "", "nobody"} {
			if err := a.Evict(b.Context(), "x", id); !errors.Is(err, fairlock.ErrNotWaiting) {
				b.Fatalf("%q: %v", id, err)
			}
		}
		if lease.Err() != nil || lease.Unlock(b.Context()) != nil {
			b.Fatal("the holder noticed")
		}
	})
}

func TestWhatMakesNoSenseIsNotEvictedOrForced(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		a, _ := b.client()
		for _, err := range []error{a.Evict(b.Context(), "", "w"), a.ForceUnlock(b.Context(), "}")} {
			if !errors.Is(err, fairlock.ErrInvalid) {
				b.Errorf("got %v", err)
			}
		}
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
		for _, err := range []error{a.Evict(b.Context(), "x", "w"), a.ForceUnlock(b.Context(), "x")} {
			if !errors.Is(err, fairlock.ErrClosed) {
				b.Errorf("got %v", err)
			}
		}
		for _, err := range a.List(b.Context()) {
			if !errors.Is(err, fairlock.ErrClosed) {
				b.Errorf("got %v", err)
			}
		}
	})
}
