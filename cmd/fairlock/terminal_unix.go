//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the one that we were started from. What is typed there goes to the process group in its foreground, and
// that is to be the command's: so Ctrl-C reaches it as if fairlock were not there, and it may read. A nil terminal
// does nothing.
type terminal struct {
	fd    int
	own   int // our process group
	lent  int // the group that it was given to; 0: none
	awake chan os.Signal
}

// ourTerminal returns the terminal that stdin is, or nil.
func ourTerminal() *terminal {
	fd := int(os.Stdin.Fd())
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		return nil
	}
	return &terminal{fd: fd, own: unix.Getpgrp(), awake: make(chan os.Signal, 1)}
}

// give puts group into the foreground, if that is ours to give, and reports whether it did.
func (t *terminal) give(group int) bool {
	if t == nil || t.foreground() != t.own {
		return false
	}
	t.lent = group
	t.set(group)
	return true
}

// take puts us back into the foreground.
func (t *terminal) take() {
	if t == nil || t.lent == 0 {
		return
	}
	if t.foreground() == t.lent {
		t.set(t.own)
	}
	t.lent = 0
}

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// set changes the foreground group. From the background that would stop us, unless we ignore it.
func (t *terminal) set(group int) {
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // it may have hung up; then nobody reads from it
}

// suspend follows a child that was stopped, so that the shell we were started from sees the job stop (Ctrl-Z), and
// wakes the child when we are woken, unless the lock was lost meanwhile. Without a terminal nobody waits for us to
// stop, and the lock is kept.
func (c *child) suspend(why os.Signal, lost func() error) {
	t := c.terminal
	if t == nil {
		return
	}
	if (why == unix.SIGTTIN || why == unix.SIGTTOU) && (t.foreground() == c.pid || t.give(c.pid)) {
		c.send(syscall.SIGCONT) // it touched the terminal just before that was its own
		return
	}
	t.take()
	t.sleep()
	t.give(c.pid)
	if lost() == nil {
		c.send(syscall.SIGCONT)
	}
}

// unheard is how long it may take to be stopped. Where there is no job control we never are.
const unheard = 200 * time.Millisecond

// sleep stops our whole process group, which may be a script's or a pipeline's, as the terminal would have.
func (t *terminal) sleep() {
	signal.Notify(t.awake, unix.SIGCONT)
	defer signal.Stop(t.awake)
	_ = unix.Kill(0, unix.SIGTSTP)
	select {
	case <-t.awake:
	case <-time.After(unheard):
	}
}
