package child

import "syscall"

// dieWithParent makes the kernel kill the child when this program dies, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
