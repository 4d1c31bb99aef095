package reentrant

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrustEndsATenthEarlyAndOfWhatExceedsTenMinutesAHundredth(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 10 * time.Millisecond,
		3 * time.Second:       300 * time.Millisecond,
		30 * time.Second:      3 * time.Second,
		10 * time.Minute:      time.Minute,
		20 * time.Minute:      time.Minute + 6*time.Second,
		MaxLease:              time.Minute + (MaxLease-10*time.Minute)/100,
	} {
		if got := Margin(lease); got != want {
			t.Errorf("Margin(%v) = %v, want %v", lease, got, want)
		}
	}
	for _, d := range []time.Duration{MinLease, time.Second, 17 * time.Second, 9 * time.Minute, 10 * time.Minute, 20 * time.Hour, 300 * 24 * time.Hour} {
		lease := asked(d)
		if trust := lease - Margin(lease); trust < d || trust > d+3*time.Millisecond {
			t.Errorf("asking for %v is trusted for %v, want %v", lease, trust, d)
		}
	}
}

func TestATimeHasPassedWhenEitherClockSaysSo(t *testing.T) {
	now := time.Now()
	if passed(now.Add(time.Second), now) || !passed(now, now) || !passed(now.Add(-1), now) {
		t.Error("by both clocks")
	}
	// A suspended machine: the wall clock went on, the monotonic one stood still.
	woken := now.Add(time.Hour).Round(0)
	if !passed(now.Add(time.Minute), woken) {
		t.Error("by the wall clock alone")
	}
}

func TestGoroutinesHaveDistinctIdentitiesThatStay(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[goroutine]bool)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			me := current()
			if me == 0 || me != current() {
				t.Error("no identity, or not the same twice")
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[me] {
				t.Errorf("%d twice", me)
			}
			seen[me] = true
		})
	}
	all.Wait()
}

func TestTasksMayBeAddedWhileSomebodyWaits(t *testing.T) {
	var tasks Tasks
	tasks.Wait()
	first, second := make(chan struct{}), make(chan struct{})
	tasks.Go(func() { <-first })
	waited := make(chan struct{})
	go func() {
		tasks.Wait()
		close(waited)
	}()
	tasks.Go(func() { <-second })
	close(first)
	select {
	case <-waited:
		t.Fatal("Wait did not wait for the second")
	case <-time.After(10 * time.Millisecond):
	}
	close(second)
	<-waited
}

func TestErrorsNameTheLockTheOperationAndTheCauseAndMatchTheirState(t *testing.T) {
	err := error(&Error{"lock", "order:42", &HeldError{Owner: "saga-7", Remaining: 1500 * time.Millisecond, Waiting: 3}})
	if want := `fairlock: lock "order:42": the lock is held: by "saga-7" for another 1.5s, 3 waiting`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	var held *HeldError
	if !errors.Is(err, ErrHeld) || !errors.As(err, &held) || held.Waiting != 3 {
		t.Error("it is not an ErrHeld")
	}
	err = &Error{"lock", "x", &WaitError{Position: 4, Waited: 3 * time.Second, Err: context.DeadlineExceeded}}
	if want := `fairlock: lock "x": gave up after 3s, having joined the line at position 4: context deadline exceeded`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if err := Invalid("n is %d", 7); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrLost) || err.Error() != "invalid argument: n is 7" {
		t.Errorf("got %v", err)
	}
}

func TestTheEndOfAContextHasItsErrorAndItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	if err := EndOf(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	timed, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	if err := EndOf(timed); err != context.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}
