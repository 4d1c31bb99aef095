package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/redact"
)

// The states that an error can stand for. Package fairlock says what each means.
var (
	ErrHeld          = errors.New("the lock is held")
	ErrQueueFull     = errors.New("the line is full")
	ErrLost          = errors.New("the lock is lost")
	ErrNotHeld       = errors.New("the lock is not held")
	ErrEvicted       = errors.New("the waiter was evicted")
	ErrNotWaiting    = errors.New("no such waiter is in line")
	ErrNotReplicated = errors.New("too few replicas confirmed the lock")
	ErrClosed        = errors.New("the locker is closed")
	ErrInvalid       = errors.New("invalid argument")
)

// Error says which operation on which lock failed, and why.
type Error struct {
	// Op is a method of a Locker, a Lease or Leases in small letters, such as "trylock"; but "force"
	// for ForceUnlock and ForceToken, and "lease" for Lease.Err.
	Op   string
	Name string // of the lock
	Err  error
}

// Error leaves out what a server repeats of a password.
func (e *Error) Error() string {
	return redact.Text(fmt.Sprintf("fairlock: %s %q: %v", e.Op, e.Name, e.Err))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HeldError is an ErrHeld with what the server last said of the holder.
type HeldError struct {
	// Owner is who holds the lock. It is empty while the lock is kept for the next in line, and while
	// the server, having lost data, waits for the holder to return.
	Owner     string
	Remaining time.Duration // until the lock is free if nobody renews it
	// Waiting is how many calls wait in line; for a plain lock, in this process. Of a quorum, after a
	// wait, it is the call's own place.
	Waiting int
	Failure error // why the last request for the lock failed; nil: it was answered. It is not wrapped
}

func (e *HeldError) Error() string {
	left := e.Remaining.Round(time.Millisecond)
	who := fmt.Sprintf("by %q for another %v", e.Owner, left)
	switch {
	case e.Owner != "":
	case left > 0:
		who = fmt.Sprintf("by nobody that the server remembers for another %v", left)
	default:
		who = "for the next in line"
	}
	return fmt.Sprintf("%v: %s, %d waiting%s", ErrHeld, who, e.Waiting, after(e.Failure))
}

// after is what an error says of the failure of the call's last request.
func after(failure error) string {
	if failure == nil {
		return ""
	}
	return fmt.Sprintf("; the last request failed: %v", failure)
}

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// WaitError says where a call stood in line when its context ended.
type WaitError struct {
	// Position is the call's place in line (for a plain lock, in this process) when the call
	// joined. 1 is next; 0: no answer had given it one, or it was past the line: it had been let in,
	// was nested, or had some of the locks of a LockAll.
	Position int
	Waited   time.Duration // since the call
	Err      error         // the context's
	Failure  error         // why the call's last request failed, if it did; it is not wrapped
}

func (e *WaitError) Error() string {
	where := "with no known place in line"
	if e.Position > 0 {
		where = fmt.Sprintf("having joined the line at position %d", e.Position)
	}
	return fmt.Sprintf("gave up after %v, %s: %v%s", e.Waited.Round(time.Millisecond), where, e.Err, after(e.Failure))
}

// Unwrap returns the context's error.
func (e *WaitError) Unwrap() error { return e.Err }

// reason is one of the errors above with a cause of its own.
type reason struct {
	state error
	why   string
}

func (r *reason) Error() string        { return r.state.Error() + ": " + r.why }
func (r *reason) Is(target error) bool { return target == r.state }

// isLost reports whether a release found that its lock was lost. It asks no error of the user's: a
// mutex may be held.
func isLost(err error) bool {
	r, ok := err.(*reason) //nolint:errorlint // see above
	return ok && r.Is(ErrLost)
}

// Invalid returns an ErrInvalid that says what is wrong.
func Invalid(format string, args ...any) error {
	return &reason{ErrInvalid, fmt.Sprintf(format, args...)}
}

// Unsupported is Invalid for what makes sense, but not to this kind of lock or client. It matches
// errors.ErrUnsupported, too.
func Unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrInvalid, fmt.Sprintf(format, args...), errors.ErrUnsupported)
}

// HasEnded reports whether ctx is done. It may have no error: see EndOf.
func HasEnded(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return ctx.Err() != nil
	}
}

// EndOf returns why ctx ended: its own error, joined with its cause if the cause is another error.
// It is never nil: a context of the user's own type may be done and have no error.
func EndOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil {
		return context.Canceled
	}
	if errors.Is(cause, err) {
		return cause
	}
	return errors.Join(err, cause)
}
