package reentrant

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestAReentryThatCannotBeHadLeavesAFixedLeaseAsItWas(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		outer := holding(t, l, "x", LeaseFor(5*time.Second))
		mini.SetError("ERR not now")
		if _, err := l.Lock(outer.Context(), "x"); err == nil {
			t.Fatal("it was extended by a server that refuses")
		}
		mini.SetError("")
		inner, err := l.Lock(outer.Context(), "x", LeaseFor(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the record is told its depth
		released(t, inner)
		time.Sleep(4 * time.Second)
		if err := outer.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("a watchdog renews a fixed lease: %v", err)
		}
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the record is prolonged")
		}
	})
}

func TestAReentryThatBringsAWatchdogHasAFixedLeaseRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker(WithLease(3 * time.Second))
		outer := holding(t, l, "x", LeaseFor(5*time.Second))
		inner, err := l.Lock(outer.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		released(t, inner)
		released(t, outer)
	})
}

func TestWhatIsReleasedAsItsLockerClosesIsRepeatedForASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		during, after, late := holding(t, l, "x"), holding(t, l, "y"), holding(t, l, "z")
		for i, lease := range []*Lease{during, after} {
			mini.SetError("TRYAGAIN the slot is on its way")
			time.AfterFunc(time.Second*9/10, func() { mini.SetError("") })
			if i == 0 {
				time.AfterFunc(100*time.Millisecond, func() { _ = l.Close() })
			}
			released(t, lease)
		}
		mini.SetError("TRYAGAIN the slot is on its way")
		began := time.Now()
		if err := late.Unlock(t.Context()); err == nil || time.Since(began) > 2*time.Second {
			t.Errorf("a server that refuses for good: %v after %v", err, time.Since(began))
		}
		mini.SetError("")
		if mini.Exists("fairlock:plain:lock:{x}") || mini.Exists("fairlock:plain:lock:{y}") {
			t.Error("a lock that was released is held")
		}
	})
}

// slow is a user's own context that takes its time to answer.
type slow struct {
	context.Context
	d time.Duration
}

func (s slow) Value(key any) any {
	time.Sleep(s.d)
	return s.Context.Value(key)
}

func TestDoDoesNotBeginWhatItsLockWasLostFor(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		began := false
		err := l.Do(slow{t.Context(), time.Second}, "x", func(context.Context, *Lease) error {
			began = true
			return nil
		}, LeaseFor(200*time.Millisecond))
		if began || !errors.Is(err, ErrLost) {
			t.Errorf("it began: %v, and %v", began, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the lock is held")
		}
	})
}
