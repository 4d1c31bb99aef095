package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
	"github.com/fairlock/locks/fairlock"
)

// Program is the program to run under the lock.
type Program struct {
	Note      string        // what others see in the line
	KillAfter time.Duration // from SIGTERM to SIGKILL
	out       io.Writer     // for complaints: it waits for no reader

	path    string
	args    []string
	insists bool          // apply KillAfter also after a SIGTERM that is only passed on
	fixed   time.Duration // the lease if it is not renewed, else 0

	said        chan struct{} // closed when all that complain was given has been written
	interrupted bool          // ended by Ctrl-C: see child.interrupted
}

// lookUp finds the program on the PATH.
func lookUp(args []string) (*Program, error) {
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // a PATH with the current directory in it is its owner's decision
		return nil, unrunnable(args[0], err)
	}
	return &Program{path: path, args: args}, nil
}

// unrunnable returns the exit.Error for a program that cannot be started.
func unrunnable(name string, err error) error {
	var wrapped *exec.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.NotFound, "%s: %w", name, err)
	}
	return exit.Errorf(exit.CannotRun, "%s: %w", name, err)
}

// under runs the command while lease is held, and unlocks afterwards. It calls released once the
// server has confirmed that. The error says how to exit.
func (p *Program) under(lease *fairlock.Lease, signals <-chan os.Signal, released func(*fairlock.Lease)) error {
	code, err := p.run(lease, signals)
	held, until := lease.Err() == nil, lease.Deadline()
	unlocked := lease.Unlock(context.Background())
	switch lost := errors.Is(unlocked, fairlock.ErrLost); {
	case unlocked == nil:
		released(lease)
	case !lost: // the command has not suffered
		exit.Complain(p.out, fmt.Errorf("%w; the lock is free at the end of its lease", unlocked))
	case held && late(until, time.Now()) > 0: // nor here: only the answer came after the lease
		exit.Complain(p.out, fmt.Errorf("%w; the command had ended before", unlocked))
	case err == nil:
		return exit.Errorf(exit.Lost, "%w; the command had exit code %d", unlocked, code)
	}
	switch {
	case err != nil:
		return err
	case code != 0:
		return &exit.Error{Code: code}
	}
	return nil
}

// run returns when the command and its offspring have ended. It returns the exit code of the
// command, or an error that says how to exit.
func (p *Program) run(lease *fairlock.Lease, signals <-chan os.Signal) (int, error) {
	for len(signals) > 0 { // what came before the command is not for it
		if got := <-signals; process.Ends(got) {
			return 0, p.endedBy(got, lease.Name(), nil)
		}
	}
	if lease.Err() != nil { // this process may have stood still since the lock was granted
		return 0, exit.Errorf(exit.Lost, "%w; the command was not started", p.loss(lease))
	}
	child, err := start(p.prepare(lease))
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!
		child, err = start(p.byShell(lease))
	}
	if err != nil {
		return 0, unrunnable(p.args[0], err)
	}
	p.said = make(chan struct{})
	close(p.said)
	defer func() {
		child.release()
		p.interrupted = child.interrupted()
		<-p.said
	}()
	return p.attend(child, lease, signals)
}

// attend follows a child that was started, for run.
func (p *Program) attend(child *child, lease *fairlock.Lease, signals <-chan os.Signal) (int, error) {
	began, first := time.Now(), lease.Deadline()
	end := func() {
		trusted, now := lease.Deadline(), time.Now()
		grace := p.grace(first.Sub(began), trusted.Sub(began), now.Sub(began), late(trusted, now))
		child.end(signals, grace, func() {
			p.complain(fmt.Errorf("%q: what runs as another user cannot be ended, and goes on without the lock", lease.Name()))
		})
	}
	var kill <-chan time.Time
	for {
		select {
		case <-child.ended:
			if left := child.linger(signals, lease.Done()); left {
				end()
				exit.Complain(p.out, fmt.Errorf("%q: the command has left something running, which was told to end", lease.Name()))
			}
			return child.code, nil
		case got := <-signals:
			child.pass(got)
			if p.insists && kill == nil && got == syscall.SIGTERM {
				kill = time.After(p.KillAfter)
			}
		case <-kill:
			child.kill()
		case <-child.halted:
			child.halt()
		case why := <-child.stopped:
			child.suspend(why, lease.Err, func() {
				p.complain(fmt.Errorf("%q: the command wants a terminal that no shell can give it any more, and is hung up", lease.Name()))
			})
		case <-lease.Done():
			p.complain(fmt.Errorf("%w; the command is told to stop", p.loss(lease)))
			end()
			return 0, exit.Errorf(exit.Lost, "%q was lost; the command had exit code %d", lease.Name(), child.code)
		}
	}
}

// grace returns how long the command has from SIGTERM to SIGKILL: KillAfter, or less. A lock that
// was waited for, or is on a quorum, begins with a claim, which is shorter than the lease and has a
// smaller margin. Its first renewal makes a lease of it. first and now are for how long the lock was
// trusted as the command began, and is now, both from then on. The command has run for ran. A lock
// that was forced is not trusted any more, but it had been renewed if it outlived its claim. What
// has passed of the grace before fairlock noticed the loss is gone.
func (p *Program) grace(first, now, ran, late time.Duration) time.Duration {
	if p.insists {
		return p.KillAfter
	}
	whole := p.KillAfter
	if now <= 2*first && min(now, ran) <= first+safely(first) {
		whole = min(whole, safely(first*10/9)) // trust ends a tenth early
	}
	return max(0, whole-late)
}

// late returns for how long a lock is not trusted any more. A process that was stopped (Ctrl-Z, a
// frozen container) hears of its loss when it goes on. While the machine slept, only the wall clock
// went on.
func late(trusted, now time.Time) time.Duration {
	return max(0, now.Sub(trusted), now.Round(0).Sub(trusted.Round(0)))
}

// complain writes err while other things go on: neither a signal nor SIGKILL waits for a reader.
func (p *Program) complain(err error) {
	before, done := p.said, make(chan struct{})
	p.said = done
	go func() {
		defer close(done)
		<-before
		exit.Complain(p.out, err)
	}()
}

// loss returns the reason why the command must end.
func (p *Program) loss(lease *fairlock.Lease) error {
	if p.fixed > 0 && !time.Now().Before(lease.Deadline()) {
		return fmt.Errorf("%q: the fixed lease of %v is over", lease.Name(), p.fixed)
	}
	return lease.Err()
}

// prepare gives the command our own streams as files: nothing is copied.
func (p *Program) prepare(lease *fairlock.Lease) *exec.Cmd {
	return &exec.Cmd{
		Path: p.path, Args: p.args,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: append(os.Environ(), "FAIRLOCK_NAME="+lease.Name(), fmt.Sprintf("FAIRLOCK_TOKEN=%d", lease.Token())),
	}
}

// byShell gives the command to a shell, as execvp(3) does, and with it flock, env and shells.
func (p *Program) byShell(lease *fairlock.Lease) *exec.Cmd {
	cmd := p.prepare(lease)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"/bin/sh", p.path}, p.args[1:]...)
	return cmd
}

const (
	// glance is how often to look whether processes that have to end are gone: nothing tells us
	// when the last one ends.
	glance = 20 * time.Millisecond
	// lingering is how long processes that outlive the command may take to end by themselves: a tee
	// has a last line to write.
	lingering = time.Second
	// deadEnd is how long after SIGKILL to wait for processes other than the command itself. One
	// that is stuck in the kernel, on a disk that does not answer, does nothing any more.
	deadEnd = time.Second
)

// linger waits a little, after the command has ended, for what the command has left running. It
// reports whether something still runs.
func (c *child) linger(signals <-chan os.Signal, lost <-chan struct{}) bool {
	over := time.NewTimer(lingering)
	defer over.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for !c.gone() {
		select {
		case got := <-signals:
			c.pass(got)
		case <-lost:
			return true
		case <-over.C:
			return true
		case <-tick.C:
		}
	}
	return false
}

// end ends the command and its offspring: by SIGTERM, and by SIGKILL those that are left after
// killAfter. It calls refused, once, if the system does not allow that and something still runs.
func (c *child) end(signals <-chan os.Signal, killAfter time.Duration, refused func()) {
	over := time.NewTimer(killAfter) // first: to look for processes takes its time
	c.quit()
	defer over.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	var killed time.Time
	for told := false; !c.hasEnded() || !c.gone(); {
		if c.isRefused() && !told {
			told = true
			refused()
		}
		select {
		case got := <-signals:
			c.pass(got)
		case <-c.halted: // no process may stop now
		case <-c.stopped:
			c.quit()
		case <-over.C:
			killed = time.Now()
		case <-tick.C:
		}
		switch {
		case killed.IsZero():
		case c.hasEnded() && time.Since(killed) > deadEnd:
			return
		default:
			c.kill() // again: a process may have just started another one
		}
	}
}

// hasEnded reports whether the command itself has ended.
func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
