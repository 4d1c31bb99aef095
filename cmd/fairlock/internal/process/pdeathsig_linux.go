package process

import "syscall"

// DieWithParent makes the kernel kill the child when fairlock dies, even by SIGKILL: see
// StartOnThread.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
