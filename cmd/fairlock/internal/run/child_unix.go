//go:build unix

package run

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// child is a running command in a process group of its own.
type child struct {
	pid      int
	code     int // its exit code, once ended is closed
	ended    chan struct{}
	stopped  chan os.Signal // the signal that stopped it
	halted   chan os.Signal // a signal that should stop it, but came to us
	terminal *terminal
	guard    *guard
	struck   bool      // it was ended by SIGINT
	refused  bool      // see isRefused
	forsaken bool      // see suspend
	halting  time.Time // see halt

	bystanders map[int]uint64 // our descendants that are none of the command's, and when they started
}

// start starts cmd. If start returns a child, the caller must release it when it has ended.
func start(cmd *exec.Cmd) (*child, error) {
	before := bystanders()
	adopt()
	c := &child{
		ended: make(chan struct{}), stopped: make(chan os.Signal), halted: make(chan os.Signal, 1),
		terminal: ourTerminal(), guard: post(), bystanders: before,
	}
	c.terminal.begin()
	if c.terminal.catches() {
		signal.Notify(c.halted, unix.SIGTSTP)
	}
	cmd.SysProcAttr = process.DieWithParent()
	cmd.SysProcAttr.Setpgid = true
	begin := func() error {
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
			c.guard.over(c.pid)
			err = cmd.Process.Release() // watch waits for the process itself, to hear when it is stopped, too
		}
		return err
	}
	if err := process.StartOnThread(begin, c.watch); err != nil {
		c.release()
		return nil, err
	}
	background()
	if !c.terminal.isShared() {
		c.terminal.give(c.pid)
	}
	return c, nil
}

// watch reports what happens to the child until it has ended. It also waits for processes that
// adopt has made ours.
func (c *child) watch() {
	defer close(c.ended)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // cannot happen: the process is our child
			c.code = exit.CannotRun
			return
		case pid != c.pid:
		case status.Stopped():
			c.stopped <- status.StopSignal()
		case status.Signaled():
			c.struck = status.Signal() == unix.SIGINT
			c.code = exit.Signal + int(status.Signal())
			return
		case status.Exited():
			c.code = status.ExitStatus()
			return
		}
	}
}

// pass passes a signal on to the group. That fails only if no process is left to get it, or all are
// another user's.
func (c *child) pass(s os.Signal) { _ = c.send(s.(syscall.Signal)) }

// quit tells all processes to end. It also wakes stopped ones: else they would not hear that.
func (c *child) quit() { c.sendAll(unix.SIGTERM, unix.SIGCONT) }

func (c *child) kill() { c.sendAll(unix.SIGKILL) }

// isRefused reports whether a process could not be told to end because it is another user's.
func (c *child) isRefused() bool { return c.refused }

func (c *child) send(s syscall.Signal) error { return unix.Kill(-c.pid, s) }

// sendAll also reaches processes that have left the group, after it: to find them takes its time.
func (c *child) sendAll(all ...syscall.Signal) {
	for _, s := range all {
		c.refused = errors.Is(c.send(s), unix.EPERM) || c.refused
	}
	_, strays := c.offspring()
	for _, pid := range strays {
		for _, s := range all {
			c.refused = errors.Is(unix.Kill(pid, s), unix.EPERM) || c.refused
		}
	}
}

// gone reports whether no process is left, neither in the group nor outside. The child must have
// ended.
func (c *child) gone() bool {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	group, strays := c.offspring()
	return !group && len(strays) == 0
}

// groupExists reports whether the group has a process, even if only a zombie.
func (c *child) groupExists() bool { return !errors.Is(unix.Kill(-c.pid, 0), unix.ESRCH) }

// release takes the terminal back and dismisses the guard.
func (c *child) release() {
	signal.Stop(c.halted)
	if lent := c.terminal.take(); lent && c.struck {
		_ = unix.Kill(0, unix.SIGINT) // Ctrl-C was for the whole script or pipeline that we belong to
	}
	c.terminal.close(c.code >= exit.Signal)
	c.guard.dismiss()
}

// interrupted reports whether Ctrl-C ended the command. Then fairlock, too, has to die of SIGINT:
// if it merely had an exit code, a shell script would take the interrupt as dealt with and go on.
func (c *child) interrupted() bool { return c.struck && c.terminal != nil }
