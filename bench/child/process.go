// Package child runs the processes of a measurement: servers, workers and JVMs.
package child

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Process is a running child. On Linux the kernel ends it with this program, however that ends.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	once sync.Once
}

// Start starts cmd from a thread that lives as long as the child: the kernel kills the child when
// the thread that started it dies.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the way it ended is of no interest: we killed it, or its answers are missed
			close(p.done)
		}
	}()
	return p, <-started
}

// Kill ends the process as kill -9 does. It returns when the process and its connections are gone.
func (p *Process) Kill() {
	p.once.Do(func() { _ = p.cmd.Process.Kill() }) // fails only if the process has ended
	<-p.done
}

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Until calls ready until ready succeeds, the process has ended, or too much time has passed.
func (p *Process) Until(ready func() error) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: %w", p.cmd.Path, err)
		default:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}
