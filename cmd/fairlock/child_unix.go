//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// child is a running command in a process group of its own.
type child struct {
	pid      int
	ended    chan int       // its exit code, once
	stopped  chan os.Signal // what stopped it: the terminal, or somebody
	terminal *terminal
}

// start starts cmd. Whoever calls it must release the child when it has ended.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{ended: make(chan int, 1), stopped: make(chan os.Signal), terminal: ourTerminal()}
	cmd.SysProcAttr = dieWithParent()
	cmd.SysProcAttr.Setpgid = true
	begin := func() error {
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
			err = cmd.Process.Release() // we wait for it ourselves, to hear of stops too
		}
		return err
	}
	if err := onThread(begin, c.watch); err != nil {
		return nil, err
	}
	c.terminal.give(c.pid)
	return c, nil
}

// watch tells what happens to the child until it has ended.
func (c *child) watch() {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(c.pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // cannot be: it is our child
			c.ended <- exitCannotRun
			return
		case status.Stopped():
			c.stopped <- status.StopSignal()
		case status.Signaled():
			c.ended <- exitSignal + int(status.Signal())
			return
		case status.Exited():
			c.ended <- status.ExitStatus()
			return
		}
	}
}

// signal passes a signal on to the group. It fails only when nobody is left to hear it.
func (c *child) signal(s os.Signal) { c.send(s.(syscall.Signal)) }

// quit tells the group to end, and wakes it if it is stopped: it would not hear that otherwise.
func (c *child) quit() {
	c.send(unix.SIGTERM)
	c.send(unix.SIGCONT)
}

func (c *child) kill() { c.send(unix.SIGKILL) }

func (c *child) send(s syscall.Signal) { _ = unix.Kill(-c.pid, s) }

// gone reports whether the group has no process left.
func (c *child) gone() bool { return errors.Is(unix.Kill(-c.pid, 0), unix.ESRCH) }

// release takes the terminal back.
func (c *child) release() { c.terminal.take() }
