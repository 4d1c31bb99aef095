//go:build unix

package child

import (
	"errors"
	"fmt"
	"syscall"
)

// Stop stops a child, and returns when the child has stopped. The kernel reports that once every
// thread of the child has stopped.
func Stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		switch _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped():
			return fmt.Errorf("it ended instead: %v", status)
		default:
			return nil
		}
	}
}

// Resume lets a stopped child go on.
func Resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
