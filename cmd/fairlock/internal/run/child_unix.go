//go:build unix

package run

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/process"
)

// child is a running command in a process group of its own.
type child struct {
	pid      int
	code     int // its exit code, once ended is closed
	ended    chan struct{}
	stopped  chan os.Signal // what stopped it: the terminal, or somebody
	halted   chan os.Signal // what should stop it, and came to us
	terminal *terminal
	guard    *guard
	struck   bool // it died of a SIGINT
}

// start starts cmd. If it returns a child, whoever calls it must release that when it has ended.
func start(cmd *exec.Cmd) (*child, error) {
	adopt()
	c := &child{ended: make(chan struct{}), stopped: make(chan os.Signal), halted: make(chan os.Signal, 1), terminal: ourTerminal(), guard: post()}
	if c.terminal.isShared() {
		signal.Notify(c.halted, unix.SIGTSTP)
	}
	cmd.SysProcAttr = process.DieWithParent()
	cmd.SysProcAttr.Setpgid = true
	begin := func() error {
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
			c.guard.over(c.pid)
			err = cmd.Process.Release() // we wait for it ourselves, to hear of stops too
		}
		return err
	}
	if err := process.StartOnThread(begin, c.watch); err != nil {
		c.release()
		return nil, err
	}
	if !c.terminal.isShared() {
		c.terminal.give(c.pid)
	}
	return c, nil
}

// watch tells what happens to the child until it has ended. It also buries those who became ours:
// see adopt.
func (c *child) watch() {
	defer close(c.ended)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // cannot be: it is our child
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

// pass passes a signal on to the group. It fails only when nobody is left to hear it.
func (c *child) pass(s os.Signal) { c.send(s.(syscall.Signal)) }

// quit tells all to end, and wakes who is stopped: they would not hear it otherwise.
func (c *child) quit() {
	c.sendAll(unix.SIGTERM)
	c.sendAll(unix.SIGCONT)
}

func (c *child) kill() { c.sendAll(unix.SIGKILL) }

func (c *child) send(s syscall.Signal) { _ = unix.Kill(-c.pid, s) }

// sendAll also reaches those who have left the group.
func (c *child) sendAll(s syscall.Signal) {
	c.send(s)
	_, strays := c.offspring()
	for _, pid := range strays {
		_ = unix.Kill(pid, s)
	}
}

// gone reports whether nothing is left of the group, nor outside of it. The child must have ended.
func (c *child) gone() bool {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	group, strays := c.offspring()
	return !group && len(strays) == 0
}

// groupExists reports whether the group has a process, be it one that only waits to be buried.
func (c *child) groupExists() bool { return !errors.Is(unix.Kill(-c.pid, 0), unix.ESRCH) }

// release takes the terminal back and sends the guard home.
func (c *child) release() {
	signal.Stop(c.halted)
	if lent := c.terminal.take(); lent && c.struck {
		_ = unix.Kill(0, unix.SIGINT) // Ctrl-C was for the whole script or pipeline that we belong to
	}
	c.terminal.close(c.code >= exit.Signal)
	c.guard.dismiss()
}

// interrupted reports whether Ctrl-C ended the command. Then a shell script must see that we died
// of it, too: if we merely had an exit code, it would take it that we had dealt with it, and go on.
func (c *child) interrupted() bool { return c.struck && c.terminal != nil }
