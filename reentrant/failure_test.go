package reentrant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestANewCallIsRefusedAtOnceByAServerThatCanKeepNoLock(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "y"))
		mini.SetError("OOM command not allowed")
		defer mini.SetError("")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Lock(ctx, "x"); err == nil || ctx.Err() != nil || errors.Is(err, ErrHeld) || time.Since(began) > time.Second {
			t.Errorf("after %v it says %v", time.Since(began), err)
		}
	})
}

func TestAWaitOfWhichNoServerSaidThatTheLockIsHeldDoesNotSayItEither(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		for what, before := range map[string]func(){
			"never": func() {},
			"of a holder who is gone": func() {
				lease := holding(t, other, "x")
				next := waits(t, l, "x")
				released(t, lease)
				released(t, (<-next).lease)
			},
		} {
			before()
			released(t, holding(t, l, "y"))
			mini.SetError("TRYAGAIN the slot is on its way")
			_, err := l.Lock(t.Context(), "x", WaitAtMost(time.Second))
			var waited *WaitError
			if errors.Is(err, ErrHeld) || !errors.As(err, &waited) || waited.Failure == nil {
				t.Errorf("%s: %v", what, err)
			}
			mini.SetError("")
			time.Sleep(2 * time.Second)
		}
	})
}

func TestAWaiterIsAsQuickAsEverAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, locker(), "x")
		next := waits(t, l, "x")
		mini.SetError("TRYAGAIN the slot is on its way")
		time.Sleep(20 * time.Second)
		mini.SetError("")
		time.Sleep(10 * time.Second) // it is refused
		mini.SetError("TRYAGAIN the slot is on its way")
		l.mu.Lock()
		l.waiters["fairlock:plain:lock:{x}"].wake()
		l.mu.Unlock()
		synctest.Wait()
		mini.SetError("")
		began := time.Now()
		released(t, lease)
		released(t, (<-next).lease)
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestWhoGivesUpIsToldOfNoFailureBeforeTheLastAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, locker(), "x")
		first, second := waits(t, l, "x"), waits(t, l, "x", WaitAtMost(8*time.Second))
		mini.SetError("TRYAGAIN the slot is on its way")
		time.Sleep(6 * time.Second)
		mini.SetError("")
		released(t, lease)
		got := <-first
		var held *HeldError
		if err := (<-second).err; !errors.As(err, &held) || held.Failure != nil || held.Owner != got.lease.Owner() {
			t.Errorf("%s has the lock, and it says %v", got.lease.Owner(), err)
		}
		released(t, got.lease)
	})
}

func TestWhoGivesUpIsToldOfTheFailureThoughOthersCame(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, l, "x")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		queued := make(chan struct{})
		go func() {
			_, err := l.Lock(ctx, "x", OnQueued(func(int) { close(queued) }))
			done <- err
		}()
		<-queued
		mini.SetError("TRYAGAIN the slot is on its way")
		time.Sleep(6 * time.Second) // it has tried
		next := waits(t, l, "x", WaitAtMost(time.Millisecond))
		cancel()
		var waited *WaitError
		if err := <-done; !errors.As(err, &waited) || waited.Failure == nil {
			t.Errorf("%v", err)
		}
		var held *HeldError
		if err := (<-next).err; !errors.As(err, &held) || held.Failure == nil || held.Owner != lease.Owner() {
			t.Errorf("%v", err)
		}
		mini.SetError("")
		released(t, lease)
	})
}
