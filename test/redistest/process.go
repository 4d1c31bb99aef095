package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/fairlock/locks/test/child"
)

// process is one run of redis-server, from start to reaping.
type process struct {
	cmd  *exec.Cmd
	log  string        // path of the file that receives this run's output
	done chan struct{} // closed once the process has ended and has been reaped
}

// startProcess starts the program.
func startProcess(bin string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(bin, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out // a file: needs no copying goroutine
	err = child.Start(p.cmd, func() {
		_ = p.cmd.Wait() // "killed" is how every server of a test ends
		close(p.done)
	})
	_ = out.Close() // the server has it
	return p, err
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
