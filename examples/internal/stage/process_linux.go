package stage

import (
	"runtime"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the example dies, even by SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// dieStill has the kernel do so with the program that this process is about to become. The kernel
// remembers the wish for a thread, and only for the first one.
func dieStill() {
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0) // it never fails
}
