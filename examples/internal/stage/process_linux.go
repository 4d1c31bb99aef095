package stage

import "syscall"

// dieWithParent makes the kernel kill the child when the example dies, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
