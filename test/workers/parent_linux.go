package workers

import "syscall"

// dieWithParent makes the kernel kill the worker when the test binary dies, also when that is killed itself.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
