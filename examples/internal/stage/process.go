package stage

import (
	"encoding/json"
	"io"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Process is a process of the crew.
type Process struct {
	Name string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ended  chan struct{}
	meant  atomic.Bool // the process was told to end
	killed bool
}

// Send sends the process an order.
func (p *Process) Send(order any) {
	_ = json.NewEncoder(p.stdin).Encode(order) // if the process has ended, Next returns an error
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and returns when the process is gone.
func (p *Process) Kill() {
	p.killed = true
	p.meant.Store(true)
	_ = p.cmd.Process.Kill() // fails only if the process has ended
	<-p.ended
}

// Stop asks the process to end, as an orchestrator would.
func (p *Process) Stop() {
	p.meant.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.stdin.Close()
}

// onThread calls start and then wait on an OS thread of their own, and returns when start has
// returned. The kernel kills the child when the thread that started it dies. So that thread must
// live as long as the child.
func onThread(start func() error, wait func()) error {
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
