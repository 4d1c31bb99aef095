package workers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/test/child"
)

// Patience bounds every wait for a worker. No wait should come near it.
const Patience = 60 * time.Second

// Process is the test binary, run again as something other than a test: its TestMain sees that in
// the environment. The process is killed when the test ends. Its methods belong to the test's own
// goroutine.
type Process struct {
	tb      testing.TB
	name    string // for messages
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  bytes.Buffer  // may be read once done is closed
	done    chan struct{} // closed when the process has ended and been reaped
	expects bool          // the test wants the process to end
}

// Play does nothing, unless this process was launched with that variable in its environment. Then
// it calls work with the variable's value, and exits. TestMain calls Play before anything else.
func Play(variable string, work func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	if err := work(value); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Launch starts a process with NAME=value added to its environment. listen reads its standard
// output until the process ends. Anything on its standard error fails the test.
func Launch(tb testing.TB, name, environment string, listen func(io.Reader)) *Process {
	tb.Helper()
	p := &Process{tb: tb, name: name, done: make(chan struct{})}
	if err := p.start(environment, listen); err != nil {
		tb.Fatalf("start worker %s: %v", name, err)
	}
	tb.Cleanup(p.end)
	return p
}

// start runs this binary again.
func (p *Process) start(environment string, listen func(io.Reader)) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	p.cmd = exec.Command(binary)
	p.cmd.Env = append(os.Environ(), environment)
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return err
	}
	read := make(chan struct{})
	err = child.Start(p.cmd, func() {
		<-read
		_ = p.cmd.Wait() // ProcessState has how it ended
		close(p.done)
	})
	if err != nil {
		return err
	}
	go func() {
		defer close(read)
		listen(p.stdout)
	}()
	return nil
}

// Kill is kill -9. It returns when the process is gone.
func (p *Process) Kill() {
	p.expects = true
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// Stop stops the process (SIGSTOP) and returns when every thread has stopped.
func (p *Process) Stop() {
	p.tb.Helper()
	if err := child.Stop(p.cmd.Process.Pid); err != nil {
		p.tb.Fatalf("stop worker %s: %v", p.name, err)
	}
}

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() {
	p.tb.Helper()
	if err := child.Resume(p.cmd.Process.Pid); err != nil {
		p.tb.Fatalf("continue worker %s: %v", p.name, err)
	}
}

// Dismiss ends standard input, which asks a worker to end in good order.
func (p *Process) Dismiss() {
	p.expects = true
	_ = p.stdin.Close() // the process may be gone already
}

// Gone waits for up to within, and reports whether the process has ended.
func (p *Process) Gone(within time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(within):
		return false
	}
}

// Quit ends the worker in good order: its Locker is closed and leaves nothing behind, neither at
// the server nor a goroutine.
func (p *Process) Quit() {
	p.tb.Helper()
	p.Dismiss()
	if !p.Gone(Patience) {
		p.tb.Fatalf("worker %s did not end", p.name)
	}
	if !p.cmd.ProcessState.Success() {
		p.tb.Errorf("worker %s ended with %v:\n%s", p.name, p.cmd.ProcessState, p.stderr.String())
	}
}

// end runs at the end of the test.
func (p *Process) end() {
	select {
	case <-p.done:
		if !p.expects {
			p.tb.Errorf("worker %s ended by itself: %v", p.name, p.cmd.ProcessState)
		}
	default:
		p.Kill()
	}
	_ = p.stdin.Close() // nobody reads it any more
	said := p.stderr.String()
	if strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || strings.Contains(said, "fatal error:") {
		p.tb.Errorf("worker %s:\n%s", p.name, said)
	} else if p.tb.Failed() && said != "" {
		p.tb.Logf("worker %s:\n%s", p.name, said)
	}
}
