// Package exit decides how fairlock ends: its exit codes, the errors that choose one, and the line
// on standard error that says why.
package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/lua"
)

// The exit codes that are fairlock's own. Those from 64 on mean the same as in sysexits.h.
const (
	Broken      = 1   // demo: a promise was broken; doctor: something is wrong
	Nothing     = 1   // show, force, evict: there is no such lock, hold or waiter
	Usage       = 64  // the command line makes no sense
	Unavailable = 69  // the server cannot be reached or used
	Output      = 74  // standard output cannot be written
	NotAcquired = 75  // the lock was not acquired in time
	Lost        = 76  // the lock was lost while the command ran
	CannotRun   = 126 // the command cannot be executed
	NotFound    = 127 // the command was not found
	Signal      = 128 // plus the number of the signal that ended the command, or fairlock while it waited
)

// Error is an error that decides how the process ends.
type Error struct {
	Code int
	Err  error // nil: there is nothing to report
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the reason, or nil.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a reason.
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Code returns the exit code for err: 0 for nil, 1 for an error that chooses none.
func Code(err error) int {
	var end *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &end):
		return end.Code
	default:
		return 1
	}
}

// Report writes err to stderr, unless there is nothing to report, and returns its exit code.
func Report(stderr io.Writer, err error) int {
	var end *Error
	if silent := errors.As(err, &end) && end.Err == nil; err != nil && !silent {
		Complain(stderr, err)
	}
	return Code(err)
}

// Complain writes err as one line that begins with "fairlock: ". It makes text from a server
// harmless to a terminal, and leaves out what a server repeats of a password.
func Complain(stderr io.Writer, err error) {
	text := lua.Redacted(strings.TrimPrefix(err.Error(), "fairlock: "))
	fmt.Fprintf(stderr, "fairlock: %s\n", look.Plain(strings.ReplaceAll(text, "\n", "; ")))
}
