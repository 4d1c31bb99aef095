// Package child starts processes that die with the process that started them, and stops them. It
// imports no testing, because the benchmarks start JVMs, too.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts cmd, and calls reap, which waits for its end. On Linux the kernel kills the child
// when this process dies, even if it is killed. The signal belongs to the thread that forked the
// child, and would come when that thread goes. So a goroutine that keeps its thread starts the
// child, and stays until reap returns.
func Start(cmd *exec.Cmd, reap func()) error {
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			reap()
		}
	}()
	return <-started
}
