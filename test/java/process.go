package java

import (
	"errors"
	"io"
	"os/exec"
	"time"

	"github.com/fairlock/locks/test/child"
	"github.com/fairlock/locks/test/written"
)

// process is one run of a program that ends when its standard input does.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr written.Text
	done   chan struct{} // closed when it has ended, been reaped, and all that it said was heard
}

// startProcess starts cmd. listen reads its standard output until that ends.
func startProcess(cmd *exec.Cmd, listen func(io.Reader)) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return p, child.Start(cmd, func() {
		listen(stdout)
		_ = cmd.Wait() // ProcessState has how it ended
		close(p.done)
	})
}

// gone waits for up to within, and reports whether the process has ended.
func (p *process) gone(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
	_ = p.stdin.Close() // nobody reads it any more
}

// quit has the process end by itself.
func (p *process) quit(within time.Duration) error {
	_ = p.stdin.Close() // the process may be gone already
	if !p.gone(within) {
		p.kill()
		return errors.New("it did not end, and was killed")
	}
	if !p.cmd.ProcessState.Success() {
		return errors.New("it ended with " + p.cmd.ProcessState.String())
	}
	return nil
}
