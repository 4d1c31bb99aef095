package java

import "syscall"

// dieWithParent makes the kernel kill the JVM when this process dies, even if it
// is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
