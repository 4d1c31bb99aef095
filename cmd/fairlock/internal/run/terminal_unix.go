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

// terminal is the terminal that fairlock was started from. What is typed there goes to the process
// group in the foreground. The command's group gets the foreground, so that Ctrl-C reaches the
// command as if fairlock were not there, and the command may read. A nil terminal does nothing.
type terminal struct {
	fd     int
	own    int // our process group
	lent   int // the group that has the foreground from us; 0: none
	shared bool
	caught bool        // see catches
	deaf   bool        // we were started to ignore Ctrl-Z, and so is the command
	modes  *term.State // from before the command could change them; nil: it never had the terminal from us
	awake  chan os.Signal
}

// ourTerminal returns our controlling terminal, or nil.
func ourTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, own: unix.Getpgrp(), awake: make(chan os.Signal, 1)}
	t.deaf = ignored(unix.SIGTSTP)
	t.shared = !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd()))
	return t
}

// controlled reports whether we have a controlling terminal.
func controlled() bool {
	t := ourTerminal()
	t.close(false)
	return t != nil
}

// attended reports whether we are in the foreground of the terminal. A job in the background must
// not draw on it.
func attended(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// isShared reports whether we are part of a pipeline. Then other processes of our group, say a
// pager, need the foreground as well, and the command gets it only once it wants to read.
func (t *terminal) isShared() bool { return t != nil && t.shared }

// give puts group into the foreground if we have the foreground, and reports whether it did.
func (t *terminal) give(group int) bool {
	if t == nil || t.foreground() != t.own {
		return false
	}
	if t.modes == nil {
		t.modes, _ = term.GetState(t.fd) // fails if the terminal has hung up
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

// close ends the use of the terminal. A killed command may have left the terminal without an echo.
// But where it was never lent, a pager may use it, whose modes are none of the command's.
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

// set changes the foreground group, after background: a process there would be stopped for that.
func (t *terminal) set(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // the terminal may have hung up; then nobody reads from it
}

// catches reports whether we hear of a Ctrl-Z that is meant for the command, instead of being
// stopped by it. We get it if the terminal is shared: see isShared. We also get it if it comes
// before the command has the foreground. A command that had the foreground while we were stopped
// would read what is typed for our shell.
func (t *terminal) catches() bool { return t != nil && t.caught }

// begin is called before the command starts. Who catches a stop has to know whether to stop: where
// that is not certain, the system decides.
func (t *terminal) begin() {
	if t != nil {
		t.caught = !t.deaf && (t.shared || mindedIsCertain && minded())
	}
}

// background has us go on in the background, too: a complaint there, or set, must not stop us while
// the command goes on. It is called once the command runs, which is not to inherit that.
func background() { signal.Ignore(unix.SIGTTOU) }

// halt passes a Ctrl-Z on to the command. Then suspend does the rest.
func (c *child) halt() {
	c.halting = time.Now() // it may be stopped already, because it touched the terminal
	_ = c.send(unix.SIGTSTP)
}

// suspend follows a child that was stopped (Ctrl-Z). It stops us, so that our shell sees the job
// stop, and all that still works for the command, for while we are stopped nobody renews its lock.
// When we are woken, it wakes the command, unless the lock was lost meanwhile. Without a terminal
// no shell waits for us to stop: we go on and keep the lock. If the child waits for a terminal that
// no shell can give us any more, suspend hangs it up as the system does with such jobs, and calls
// forsaken the first time.
func (c *child) suspend(why os.Signal, lost func() error, forsaken func()) {
	t := c.terminal
	if t == nil {
		return
	}
	wants := (why == unix.SIGTTIN || why == unix.SIGTTOU) && time.Since(c.halting) > unheard
	c.halting = time.Time{}
	if wants && (t.foreground() == c.pid || t.give(c.pid)) {
		_ = c.send(syscall.SIGCONT) // the child touched the terminal just before it had the foreground
		return
	}
	if wants && orphaned() {
		if !c.forsaken {
			c.forsaken = true
			forsaken()
		}
		_ = c.send(unix.SIGHUP)
	}
	lent := t.take()
	thaw := c.freeze()
	dismiss := lookout(c.pid)
	t.sleep()
	dismiss()
	if t.catches() { // sleep has ended that
		select {
		case <-c.halted: // another process of our group told all of it, as we did
		default:
		}
		signal.Notify(c.halted, unix.SIGTSTP)
	}
	if lent || !t.shared {
		t.give(c.pid)
	}
	if lost() == nil {
		thaw()
	}
}

// unheard is how long a stop may take to reach us. Without job control we are never stopped.
const unheard = 200 * time.Millisecond

// sleep stops our whole process group, as the terminal would have done. The group may be that of a
// script or a pipeline.
func (t *terminal) sleep() {
	signal.Notify(t.awake, unix.SIGCONT)
	defer signal.Stop(t.awake)
	if t.catches() {
		signal.Ignore(unix.SIGTSTP) // after catching the signal once, we would not stop at it
	}
	_ = unix.Kill(0, unix.SIGTSTP)
	if t.catches() && minded() {
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	}
	select {
	case <-t.awake:
	case <-time.After(unheard):
	}
}
