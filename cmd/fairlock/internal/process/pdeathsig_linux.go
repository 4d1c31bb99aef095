package process

import "syscall"

// DieWithParent has the kernel kill the child when fairlock dies, even by SIGKILL: see
// StartOnThread.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
