package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// process is one run of redis-server, from start to reaping.
type process struct {
	cmd  *exec.Cmd
	log  string        // path of the file that receives this run's output
	done chan struct{} // closed once the process has ended and has been reaped
}

// startProcess starts the program. The kernel ties the parent-death signal to
// the OS thread that forked, not to the whole parent: when that thread goes,
// the child is killed, at a moment that looks random. So a goroutine of its own
// starts the server, keeps its thread, and stays until the server has ended.
func startProcess(bin string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(bin, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out // a file: needs no copying goroutine
	p.cmd.SysProcAttr = dieWithParent()

	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // "killed" is how every server of a test ends
			close(p.done)
		}
	}()
	return p, <-started
}

// kill ends the process, running or stopped, and waits until it is reaped.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// output returns what the server has written so far, for an error message.
func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no output: %v)", err)
	}
	return string(text)
}

// portTaken says whether the process ended because it could not bind.
func (p *process) portTaken() bool {
	return p.ended() && strings.Contains(strings.ToLower(p.output()), "address already in use")
}
