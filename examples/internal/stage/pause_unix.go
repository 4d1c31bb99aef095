//go:build unix

package stage

import "syscall"

// Pause stops it in the middle of whatever it does, as a suspended machine, a long collection or a debugger does.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on. It does not know that it was stopped.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
