//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that we were started from. What is typed there goes to the process group in
// its foreground, and that is to be the command's: so Ctrl-C reaches it as if fairlock were not
// there, and it may read. A nil terminal does nothing.
type terminal struct {
	fd     int
	own    int // our process group
	lent   int // the group that it was given to; 0: none
	shared bool
	modes  *term.State // before the command could change them
	awake  chan os.Signal
}

// ourTerminal returns the terminal that controls us, or nil.
func ourTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, own: unix.Getpgrp(), awake: make(chan os.Signal, 1)}
	t.shared = !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd()))
	t.modes, _ = term.GetState(fd) // fails if it has hung up
	return t
}

// controlled reports whether there is a terminal that controls us.
func controlled() bool {
	t := ourTerminal()
	t.close(false)
	return t != nil
}

// attended reports whether we are in the foreground of the terminal: a job in the background does
// not draw on it.
func attended(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// isShared reports whether we are part of a pipeline: others of our group, say a pager, need the
// foreground as well, and the command gets it only once it wants to read.
func (t *terminal) isShared() bool { return t != nil && t.shared }

// give puts group into the foreground, if that is ours to give, and reports whether it did.
func (t *terminal) give(group int) bool {
	if t == nil || t.foreground() != t.own {
		return false
	}
	t.lent = group
	t.set(group)
	return true
}

// take puts us back into the foreground, and reports whether we had lent it.
func (t *terminal) take() bool {
	if t == nil || t.lent == 0 {
		return false
	}
	if t.foreground() == t.lent {
		t.set(t.own)
	}
	t.lent = 0
	return true
}

// close ends the use of the terminal. A command that was killed may have left it without an echo.
func (t *terminal) close(killed bool) {
	if t == nil {
		return
	}
	if killed && t.modes != nil && t.foreground() == t.own {
		_ = term.Restore(t.fd, t.modes)
	}
	_ = unix.Close(t.fd)
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

// halt passes Ctrl-Z on, where it comes to us: see isShared. What follows is up to suspend.
func (c *child) halt() { c.send(unix.SIGTSTP) }

// suspend follows a child that was stopped, so that the shell we were started from sees the job
// stop (Ctrl-Z), and wakes the child when we are woken, unless the lock was lost meanwhile. Without
// a terminal nobody waits for us to stop, and the lock is kept.
func (c *child) suspend(why os.Signal, lost func() error) {
	t := c.terminal
	if t == nil {
		return
	}
	if (why == unix.SIGTTIN || why == unix.SIGTTOU) && (t.foreground() == c.pid || t.give(c.pid)) {
		c.send(syscall.SIGCONT) // it touched the terminal just before that was its own
		return
	}
	lent := t.take()
	t.sleep()
	if t.shared {
		signal.Notify(c.halted, unix.SIGTSTP) // which sleep has ended
	}
	if lent || !t.shared {
		t.give(c.pid)
	}
	if lost() == nil {
		c.send(syscall.SIGCONT)
	}
}

// unheard is how long it may take to be stopped. Where there is no job control we never are.
const unheard = 200 * time.Millisecond

// sleep stops our whole process group, which may be a script's or a pipeline's, as the terminal
// would have.
func (t *terminal) sleep() {
	signal.Notify(t.awake, unix.SIGCONT)
	defer signal.Stop(t.awake)
	if t.shared {
		signal.Ignore(unix.SIGTSTP) // having caught it once we would not stop at it
	}
	_ = unix.Kill(0, unix.SIGTSTP)
	if t.shared && minded() {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
	select {
	case <-t.awake:
	case <-time.After(unheard):
	}
}

// minded reports whether our parent is a shell that has given us, or our pipeline, a group of its
// own: it sees us stop and can wake us.
func minded() bool {
	parent := unix.Getppid()
	group, err := unix.Getpgid(parent)
	if err != nil || group == unix.Getpgrp() {
		return false
	}
	theirs, err := unix.Getsid(parent)
	ours, _ := unix.Getsid(0) // cannot fail
	return err == nil && theirs == ours
}
