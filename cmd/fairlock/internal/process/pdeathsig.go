// Package process handles signals, and starts child processes that die with us.
package process

import "runtime"

// StartOnThread calls start and then wait on an OS thread of their own, and returns when start has
// returned. The kernel kills the child when the thread that started it dies. So that thread must
// live as long as the child.
func StartOnThread(start func() error, wait func()) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := start()
		started <- err
		if err == nil {
			wait()
		}
	}()
	return <-started
}
