// Package process is signals, and child processes that die with us.
package process

import "runtime"

// StartOnThread calls start and then wait on an OS thread that does nothing else meanwhile, and
// returns when start has. The kernel ties a child's parent-death signal to the thread that started
// it: that one must live as long as the child.
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
