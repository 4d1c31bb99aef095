package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// program is what is run under the lock.
type program struct {
	path string
	args []string
}

// lookUp finds the program.
func lookUp(args []string) (*program, error) {
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // a PATH with the current directory in it is its owner's decision
		return nil, unrunnable(args[0], err)
	}
	return &program{path, args}, nil
}

// unrunnable is the exit for a program that cannot be started.
func unrunnable(name string, err error) error {
	var wrapped *exec.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fail(exitNotFound, "%s: %w", name, err)
	}
	return fail(exitCannotRun, "%s: %w", name, err)
}

// under runs the command while lease is held, and unlocks it afterwards. The error says how to end.
func (c *program) under(lease *fairlock.Lease, signals <-chan os.Signal, grace time.Duration) error {
	code, err := c.run(lease, signals, grace)
	unlocked := lease.Unlock(context.Background())
	switch {
	case err != nil:
		return err
	case errors.Is(unlocked, fairlock.ErrLost):
		return fail(exitLost, "%w; the command had exit code %d", unlocked, code)
	case unlocked != nil: // the command is none the worse for it, and the lease will end
		complain(os.Stderr, unlocked)
	}
	if code != 0 {
		return &exit{code: code}
	}
	return nil
}

// run returns when the command has ended, with its exit code, or with an error that decides how to end.
func (c *program) run(lease *fairlock.Lease, signals <-chan os.Signal, grace time.Duration) (int, error) {
	select {
	case got := <-signals:
		return 0, interrupted(got, lease.Name(), nil)
	default:
	}
	child, err := start(c.prepare(lease))
	if err != nil {
		return 0, unrunnable(c.args[0], err)
	}
	defer child.release()
	for {
		select {
		case code := <-child.ended:
			return code, nil
		case got := <-signals:
			child.signal(got)
		case why := <-child.stopped:
			child.suspend(why, lease.Err)
		case <-lease.Done():
			code := child.terminate(signals, grace)
			return 0, fail(exitLost, "%w; the command was told to stop, and had exit code %d", lease.Err(), code)
		}
	}
}

// prepare wires the command to our own streams, as files: nothing is copied.
func (c *program) prepare(lease *fairlock.Lease) *exec.Cmd {
	return &exec.Cmd{
		Path: c.path, Args: c.args,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: append(os.Environ(), "FAIRLOCK_NAME="+lease.Name(), fmt.Sprintf("FAIRLOCK_TOKEN=%d", lease.Token())),
	}
}

// glance is how often a group that was told to end is looked at: nobody tells us that its last process has ended.
const glance = 10 * time.Millisecond

// terminate ends the child's whole group: SIGTERM, and SIGKILL to what is left of it after grace. It returns the
// child's exit code.
func (c *child) terminate(signals <-chan os.Signal, grace time.Duration) (code int) {
	c.quit()
	over := time.NewTimer(grace)
	defer over.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	ended, killed := false, false
	for !ended || !killed && !c.gone() {
		select {
		case code = <-c.ended:
			ended = true
		case got := <-signals:
			c.signal(got)
		case <-c.stopped:
			c.quit() // nobody may stop now
		case <-over.C:
			c.kill()
			killed = true
		case <-tick.C:
		}
	}
	return code
}
