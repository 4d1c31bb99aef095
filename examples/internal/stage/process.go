package stage

import (
	"encoding/json"
	"io"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Process is one of the crew.
type Process struct {
	Name string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ended  chan struct{}
	meant  atomic.Bool // its end was asked for
	killed bool
}

// Send gives it an order.
func (p *Process) Send(order any) {
	_ = json.NewEncoder(p.stdin).Encode(order) // if it is no more, that is told elsewhere
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it as kill -9 does, and returns when it is gone.
func (p *Process) Kill() {
	p.killed = true
	p.meant.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.ended
}

// Stop asks it to end, as an orchestrator does.
func (p *Process) Stop() {
	p.meant.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.stdin.Close()
}

// onThread calls start and then wait on an OS thread that does nothing else meanwhile, and returns when start has. The
// kernel ties a child's parent-death signal to the thread that started it: that one must live as long as the child.
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
