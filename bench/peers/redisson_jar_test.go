package peers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/redistest"
)

// aJar returns a JVM that locks, on a server of its own.
func aJar(t *testing.T) jarLocker {
	t.Helper()
	java.Require(t)
	return open(t, redissonJar, redistest.Start(t).Addr()).(jarLocker)
}

func TestTheJVMsClockIsOurs(t *testing.T) {
	t.Parallel()
	locker := aJar(t)
	before := time.Now()
	lock, err := locker.Lock(t.Context(), "x", nil)
	granted := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, there := time.Now(), lock.(Timed)
	// Java's clock may be cut to microseconds.
	if at := there.Granted(); at.Before(before.Add(-time.Microsecond)) || at.After(granted) {
		t.Errorf("granted at %v, which is not between %v and %v", at, before, granted)
	}
	if at := there.Released(); at.Before(granted.Add(-time.Microsecond)) || at.After(after) {
		t.Errorf("released at %v, which is not between %v and %v", at, granted, after)
	}
}

func TestWhoContendsInTheJVMHoldsAlone(t *testing.T) {
	t.Parallel()
	locker := aJar(t)
	lock, err := locker.Lock(t.Context(), "another", nil) // from now on it need not load what it takes
	if err == nil {
		err = lock.Unlock(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	turns, err := locker.Contend(Contest{
		Name: "x", First: 3, Callers: 4, Hold: time.Millisecond,
		Start: start, End: start.Add(time.Second), Until: start.Add(3 * time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, queued := 0, 0
	for i, a := range turns {
		if a.Caller < 3 || a.Caller > 6 || a.Queued != 0 && a.Queued < a.Began {
			t.Errorf("%+v", a)
		}
		if a.Queued != 0 {
			queued++
		}
		if a.Granted == 0 {
			continue
		}
		ended++
		if a.Began > a.Granted || a.Granted+int64(time.Millisecond) > a.Released {
			t.Errorf("%+v", a)
		}
		for _, b := range turns[:i] {
			if b.Granted != 0 && a.Granted < b.Released && b.Granted < a.Released {
				t.Errorf("%+v and %+v hold at the same time", a, b)
			}
		}
	}
	if ended == 0 || queued == 0 {
		t.Errorf("of %d turns %d ended, and %d were seen in line", len(turns), ended, queued)
	}
}

func TestAJVMThatHasEndedFailsItsCalls(t *testing.T) {
	t.Parallel()
	locker := aJar(t)
	if _, err := locker.Lock(t.Context(), "x", nil); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() {
		_, err := locker.Lock(t.Context(), "x", nil)
		waits <- err
	}()
	locker.jvm.process.Kill()
	if err := <-waits; err == nil {
		t.Error("a dead JVM has the lock")
	}
	if _, err := locker.CPU(); err == nil {
		t.Error("a dead JVM says what it has used")
	}
}

func TestACallToAJVMThatIsGivenUpLeavesNoHold(t *testing.T) {
	t.Parallel()
	locker := aJar(t)
	held, err := locker.Lock(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locker.Lock(ctx, "x", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := locker.Lock(t.Context(), "x", nil) // behind the one that was given up
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAJVMSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	locker := aJar(t)
	if threads, err := locker.Threads(); err != nil || threads < 1 {
		t.Errorf("%d threads, %v", threads, err)
	}
	if used, err := locker.CPU(); err != nil || used <= 0 {
		t.Errorf("%v, %v", used, err)
	}
}
