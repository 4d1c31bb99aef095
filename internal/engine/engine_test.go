package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	held := &HeldError{Owner: "saga-7", Failure: errors.New("i/o timeout")}
	if want := `the lock is held: by "saga-7" for another 0s, 0 waiting; the last request failed: i/o timeout`; held.Error() != want {
		t.Errorf("got  %s\nwant %s", held, want)
	}
	if !errors.Is(err, ErrHeld) || !errors.As(err, &held) || held.Waiting != 3 {
		t.Error("it is not an ErrHeld")
	}
	err = &Error{"lock", "x", &WaitError{Position: 4, Waited: 3 * time.Second, Err: context.DeadlineExceeded}}
	if want := `fairlock: lock "x": gave up after 3s, having joined the line at position 4: context deadline exceeded`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	err = &WaitError{Waited: time.Second, Err: context.DeadlineExceeded, Failure: errors.New("i/o timeout")}
	if want := "gave up after 1s, with no known place in line: context deadline exceeded; the last request failed: i/o timeout"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if err := Invalid("n is %d", 7); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrLost) || err.Error() != "invalid argument: n is 7" {
		t.Errorf("got %v", err)
	}
}

func TestADoAllWhoseFunctionUnlockedOneLockTellsThatTheReleaseOfAnotherIsNotConfirmed(t *testing.T) {
	unlocked, silent := &Error{"unlock", "a", ErrNotHeld}, &Error{"unlock", "b", context.DeadlineExceeded}
	if err := new(Core).afterDo(nil, errors.Join(unlocked, silent), nil, true); !errors.Is(err, silent) || errors.Is(err, ErrNotHeld) {
		t.Errorf("got %v", err)
	}
	if err := new(Core).afterDo(nil, errors.Join(unlocked, unlocked), nil, true); err != nil {
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

func TestALoggerIsAskedForAttributesWhereItsLinesAreWritten(t *testing.T) {
	h := &attributed{may: make(chan struct{}), lines: make(chan string, 1)}
	s := Settings{Logger: slog.New(h)}
	s.reports()
	node := s.Logger.With("node", "a").WithGroup("more")
	node.Info("up") // neither has waited
	close(h.may)
	if got := <-h.lines; got != "up [node=a] more" {
		t.Errorf("%q", got)
	}
	s.reporter.drain()
}

// attributed is a handler that takes attributes only when it may.
type attributed struct {
	slog.Handler
	may   chan struct{}
	lines chan string
	with  string
}

func (a *attributed) Enabled(context.Context, slog.Level) bool { return true }

func (a *attributed) Handle(_ context.Context, line slog.Record) error {
	a.lines <- line.Message + a.with
	return nil
}

func (a *attributed) WithAttrs(attrs []slog.Attr) slog.Handler {
	<-a.may
	return &attributed{may: a.may, lines: a.lines, with: a.with + fmt.Sprint(" ", attrs)}
}

func (a *attributed) WithGroup(name string) slog.Handler {
	<-a.may
	return &attributed{may: a.may, lines: a.lines, with: a.with + " " + name}
}

func TestAServerOf32BitsIsRefused(t *testing.T) {
	c := &Core{}
	if err := c.judge("arch_bits:32\r\n"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("its locks exclude nobody, and it is taken: %v", err)
	}
}
