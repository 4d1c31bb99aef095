package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/fairlock"
)

// acquire waits for the lock, or for a signal that ends the waiting.
func (r *Command) acquire(locker fairlock.Interface, p *Program, signals <-chan os.Signal, shown *progress) (*fairlock.Lease, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	follow := shown.follow(locker, r)
	var lease *fairlock.Lease
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err = r.lock(ctx, locker, p.Note, follow.queued)
	}()
	got := endOrSignal(done, signals)
	if got != nil {
		cancel()
		<-done
	}
	follow.end()
	switch {
	case got != nil:
		if err == nil {
			err = lease.Unlock(ctx)
		}
		return nil, p.endedBy(got, r.Name, err)
	case err != nil:
		return nil, r.refused(locker, err)
	}
	return lease, nil
}

// endOrSignal returns the signal that ends the waiting, or nil if the waiting has ended by itself.
func endOrSignal(done <-chan struct{}, signals <-chan os.Signal) os.Signal {
	for {
		select {
		case <-done:
			return nil
		case got := <-signals:
			if process.Ends(got) {
				return got
			}
		}
	}
}

// endedBy notes that a signal ended fairlock before it ran the command, and returns the exit.Error.
func (p *Program) endedBy(got os.Signal, name string, err error) error {
	p.interrupted = got == syscall.SIGINT && controlled()
	var wait *fairlock.WaitError
	if errors.As(err, &wait) {
		return exit.Errorf(exit.Signal+process.Number(got), "%v after %v of waiting for %q", got, wait.Waited.Round(time.Millisecond), name)
	}
	return exit.Errorf(exit.Signal+process.Number(got), "%v before the command was started under %q", got, name)
}

// refused turns the error of a Lock into an exit.Error.
func (r *Command) refused(locker fairlock.Interface, err error) error {
	var wait *fairlock.WaitError
	switch {
	case errors.Is(err, fairlock.ErrInvalid):
		return &exit.Error{Code: exit.Usage, Err: err}
	case errors.Is(err, fairlock.ErrHeld):
		return exit.Errorf(r.Conflict, "%q was not acquired within %v: %s", r.Name, time.Duration(r.Wait), r.holder(locker, err))
	case errors.Is(err, fairlock.ErrQueueFull):
		return exit.Errorf(r.Conflict, "%q was not acquired: the line is full: %s", r.Name, r.holder(locker, err))
	case errors.Is(err, fairlock.ErrEvicted), errors.As(err, &wait) && wait.Position > 0:
		return &exit.Error{Code: r.Conflict, Err: err}
	default: // also if the server has not answered yet: a user who skips conflicts must hear of that
		return exit.Errorf(exit.Unavailable, "%w (the server is %s)", err, &r.Connection)
	}
}

// holder says who has the lock, and how many wait: of a plain lock only their processes know that.
func (r *Command) holder(locker fairlock.Interface, err error) string {
	state := stateOf(context.Background(), locker, r.Name)
	if state == nil || state.Holder == nil {
		return err.Error() // the lock has changed hands, or the server is gone; err is what the call was told
	}
	h := state.Holder
	text := fmt.Sprintf("held by %s since %s", nickname(h), h.Since.Format(time.DateTime))
	if r.Plain {
		return text
	}
	return fmt.Sprintf("%s, %d waiting", text, state.Waiting)
}

// nickname returns what a holder calls itself.
func nickname(h *fairlock.Holder) string {
	if h.Note != "" {
		return output.Clean(h.Note)
	}
	return output.Clean(h.Owner)
}

// stateOf inspects the lock. It returns nil if that does not work soon.
func stateOf(ctx context.Context, locker fairlock.Interface, name string) *fairlock.State {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	state, err := locker.Inspect(ctx, name)
	if err != nil {
		return nil
	}
	return state
}
