package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// runVerb is "fairlock run".
type runVerb struct {
	connection
	Lease   time.Duration `default:"30s" placeholder:"DURATION" help:"How long the lock outlives a holder that died (default ${default})."`
	Wait    patience      `default:"forever" placeholder:"DURATION" help:"How long to wait in line; 0 tries once (default ${default})."`
	Grace   time.Duration `default:"10s" placeholder:"DURATION" help:"Between SIGTERM and SIGKILL when the lock is lost (default ${default})."`
	Name    string        `arg:"" help:"The lock's name."`
	Command []string      `arg:"" passthrough:"partial" help:"The command and its arguments, after --."`
}

// Help is the long text of "fairlock run --help".
func (*runVerb) Help() string {
	return `Waits in line for the lock, runs the command, and hands the lock on when it has ended. The command finds
the lock's name and its fencing token in FAIRLOCK_NAME and FAIRLOCK_TOKEN.

  fairlock run nightly -- ./backup.sh
  fairlock run --wait 0 nightly -- sh -c './backup.sh && ./upload.sh'

SIGINT, SIGTERM and SIGHUP go on to the command and all its process group; while fairlock still waits they take it
out of the line. If the lock is lost (the server was away for longer than the lease, or somebody deleted the lock)
the group gets SIGTERM and, when the grace is over, SIGKILL. On Linux the command is killed if fairlock is.

Exit codes: the command's own, or 128+n if signal n ended it (or fairlock, while it waited), or
   64  the command line makes no sense
   69  the server cannot be reached or used
   75  the lock was not acquired in time
   76  the lock was lost while the command ran
  126  the command cannot be executed
  127  the command was not found`
}

// patience is how long to wait for the lock; negative: forever.
type patience time.Duration

// UnmarshalText takes a duration, 0 or forever.
func (p *patience) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = -1
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither 0 nor a duration nor forever", text)
	}
	*p = patience(d)
	return nil
}

// Run is called by kong. Its error is an *exit unless all went well.
func (r *runVerb) Run() error {
	command, err := r.command()
	if err != nil {
		return err
	}
	rdb, err := r.open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	log := newNotices(os.Stderr)
	locker := fairlock.New(rdb, fairlock.WithLease(r.Lease), fairlock.WithLogger(slog.New(log)))
	defer locker.Close()
	signals, release := catch()
	defer release()
	lease, err := r.acquire(locker, signals)
	if err != nil {
		return err
	}
	log.hush()
	return command.under(lease, signals, r.Grace)
}

// command checks what is to be run before anybody waits for it.
func (r *runVerb) command() (*program, error) {
	if len(r.Command) < 2 || r.Command[0] != "--" {
		return nil, fail(exitUsage, "expected NAME -- COMMAND ARG... (fairlock run --help tells more)")
	}
	if r.Grace < 0 {
		return nil, fail(exitUsage, "--grace: %v is negative", r.Grace)
	}
	return lookUp(r.Command[1:])
}

// acquire waits for the lock or the first signal.
func (r *runVerb) acquire(locker *fairlock.Locker, signals <-chan os.Signal) (*fairlock.Lease, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var lease *fairlock.Lease
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err = r.lock(ctx, locker)
	}()
	select {
	case <-done:
	case got := <-signals:
		cancel()
		<-done
		if err == nil {
			err = lease.Unlock(ctx)
		}
		return nil, interrupted(got, r.Name, err)
	}
	if err != nil {
		return nil, r.refused(locker, err)
	}
	return lease, nil
}

func (r *runVerb) lock(ctx context.Context, locker *fairlock.Locker) (*fairlock.Lease, error) {
	note := fairlock.Note(r.note())
	switch {
	case r.Wait == 0:
		return locker.TryLock(ctx, r.Name, note)
	case r.Wait > 0:
		return locker.Lock(ctx, r.Name, note, fairlock.WaitAtMost(time.Duration(r.Wait)))
	default:
		return locker.Lock(ctx, r.Name, note)
	}
}

// note is what others see of us in the line. No arguments: they may be secrets.
func (r *runVerb) note() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	note := fmt.Sprintf("%s:%d %s", host, os.Getpid(), filepath.Base(r.Command[1]))
	return strings.ToValidUTF8(note[:min(len(note), 256)], "")
}

// interrupted is the exit of a fairlock that was told to go while it waited.
func interrupted(got os.Signal, name string, err error) error {
	var wait *fairlock.WaitError
	if errors.As(err, &wait) {
		return fail(exitSignal+number(got), "%v after %v of waiting for %q", got, wait.Waited.Round(time.Millisecond), name)
	}
	return fail(exitSignal+number(got), "%v before the command was started", got)
}

// refused turns the error of a Lock into an exit.
func (r *runVerb) refused(locker *fairlock.Locker, err error) error {
	switch {
	case errors.Is(err, fairlock.ErrInvalid):
		return &exit{exitUsage, err}
	case errors.Is(err, fairlock.ErrHeld):
		return fail(exitNotAcquired, "%q was not acquired within %v: %s", r.Name, time.Duration(r.Wait), holder(locker, r.Name, err))
	default:
		return &exit{exitUnavailable, err}
	}
}

// holder says who has the lock.
func holder(locker *fairlock.Locker, name string, err error) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state, failed := locker.Inspect(ctx, name)
	if failed != nil || state.Holder == nil {
		return err.Error() // it has changed hands meanwhile, or the server is gone: this is what we were told
	}
	h := state.Holder
	who := h.Note
	if who == "" {
		who = h.Owner
	}
	return fmt.Sprintf("held by %s since %s, %d waiting", who, h.Since.Format(time.DateTime), len(state.Waiters))
}
