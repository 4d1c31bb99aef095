//go:build unix && !linux

package run

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt does nothing here: the system adopts processes whose parent has died.
func adopt() {}

// offspring reports whether a process is left in the child's process group. Processes that have
// left the group cannot be found here.
func (c *child) offspring() (group bool, strays []int) { return c.groupExists(), nil }

// freeze stops nothing more here: what has left the group cannot be found.
func (c *child) freeze() (thaw func()) { return func() { _ = c.send(unix.SIGCONT) } }

// bystanders returns nothing: offspring looks at the command's group only.
func bystanders() map[int]uint64 { return nil }

// lookout is for nobody here: the system does not say in one way which processes are stopped.
func lookout(int) (dismiss func()) { return func() {} }

// minded reports whether our parent is a shell that has given us, or our pipeline, a process group.
// Such a shell sees us stop and can wake us.
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

// mindedIsCertain says that minded is no guess. Here it does not know of scripts.
const mindedIsCertain = false

// orphaned reports whether no shell can see our process group stop. Here that is never known: we
// may be part of a script that a shell minds.
func orphaned() bool { return false }

// ignored reports whether we were started to ignore a signal. Here that is never known.
func ignored(syscall.Signal) bool { return false }
