//go:build unix

package stage

import (
	"os"
	"os/exec"
	"syscall"
)

// Become makes this process another program, which ends when it is killed, or the example dies.
func Become(args ...string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	dieStill()
	return syscall.Exec(path, args, os.Environ())
}

// Pause stops the process in the middle of its work, as a suspended machine, a long garbage
// collection or a debugger would.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets the process go on. The process does not know that it was stopped.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
