package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// freeze stops all that still works for the command. It returns what wakes the same processes. The
// group has heard a Ctrl-Z that its leader obeys: it has a moment to do so, too. A pager leaves the
// screen first, and SIGSTOP would keep it from that.
func (c *child) freeze() (thaw func()) {
	var frozen []int
	for until := time.Now().Add(unheard); ; time.Sleep(glance / 2) {
		if group, _, _ := c.kin(); len(working(group)) == 0 || time.Now().After(until) {
			break
		}
	}
	for range 20 { // a process may just have started another one
		group, strays, _ := c.kin()
		in, out := working(group), working(strays)
		if len(in) > 0 {
			_ = c.send(unix.SIGSTOP)
		}
		for _, pid := range out {
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
		if frozen = append(frozen, out...); len(in)+len(out) == 0 {
			break
		}
	}
	return func() {
		for _, pid := range frozen {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
		_ = c.send(unix.SIGCONT)
	}
}

// working are those of the processes that are not stopped.
func working(all []procfs) (pids []int) {
	for _, p := range all {
		if !p.stopped {
			pids = append(pids, p.pid)
		}
	}
	return pids
}
