package reentrant

import (
	"context"
	"errors"
	"sync"
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
		takesLong, brief := slow{t.Context(), time.Second}, LeaseFor(200*time.Millisecond)
		for op, err := range map[string]error{
			"do": l.Do(takesLong, "x", func(context.Context, *Lease) error {
				began = true
				return nil
			}, brief),
			"doall": l.DoAll(takesLong, []string{"x", "y"}, func(context.Context, *Leases) error {
				began = true
				return nil
			}, brief),
		} {
			if e := new(Error); began || !errors.Is(err, ErrLost) || !errors.As(err, &e) || e.Op != op {
				t.Errorf("%s: it began: %v, and %v", op, began, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the lock is held")
		}
	})
}

// heldUp says when it is first asked for a value, and answers when the test lets it.
type heldUp struct {
	context.Context
	asked, goesOn chan struct{}
	once          *sync.Once
}

func (h heldUp) Value(key any) any {
	h.once.Do(func() {
		close(h.asked)
		<-h.goesOn
	})
	return h.Context.Value(key)
}

func TestATryOfTheOwnerThatHasJustGotTheLockHereJoinsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "y"))
		ctx := heldUp{t.Context(), make(chan struct{}), make(chan struct{}), new(sync.Once)}
		type outcome struct {
			lease *Lease
			err   error
		}
		done := make(chan outcome)
		go func() {
			lease, err := l.TryLock(ctx, "x", WithOwner("A"))
			done <- outcome{lease, err}
		}()
		<-ctx.asked
		first := holding(t, l, "x", WithOwner("A"))
		close(ctx.goesOn)
		second := <-done
		if second.err != nil {
			t.Fatal(second.err)
		}
		if second.lease.Token() != first.Token() {
			t.Errorf("tokens %d and %d", first.Token(), second.lease.Token())
		}
		released(t, second.lease)
		released(t, first)
	})
}

func TestTheContextOfALockAllHasEndedBeforeOneOfItsLocksIsAnothers(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		outer := holding(t, l, "x")
		leases, err := l.LockAll(outer.Context(), []string{"x", "y"})
		if err != nil {
			t.Fatal(err)
		}
		released(t, leases.Lease("x"))
		if err := context.Cause(leases.Context()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("its context ended with %v", err)
		}
		released(t, leases.Lease("y"))
		released(t, outer)
	})
}

func TestAnExtendOfWhatIsNotHeldSaysThatItIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		lease := holding(t, locker(), "x")
		released(t, lease)
		for _, l := range []*Lease{lease, nil} {
			err := l.Extend(t.Context(), time.Minute)
			if e := new(Error); !errors.Is(err, ErrNotHeld) || !errors.As(err, &e) || e.Op != "extend" {
				t.Errorf("it says %v", err)
			}
		}
	})
}
