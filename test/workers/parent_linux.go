package workers

import "syscall"

// dieWithParent makes the kernel kill the worker when the test binary dies, even if the binary
// itself is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
