package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/written"
)

// asFairlock makes the test binary behave as fairlock itself, so that fairlock, too, is run under
// the race detector.
const asFairlock = "FAIRLOCK_TEST_AS_FAIRLOCK"

// dials is where a pool of go-redis looks once a second whether a server is back. It ends up to a
// second after the pool is closed.
const dials = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// unread is a write to a standard error that nobody reads: it ends with the process.
const unread = "github.com/fairlock/locks/cmd/fairlock/internal/run.(*progress).write"

// leaked is the exit code of a fairlock that left goroutines behind.
const leaked = 99

func TestMain(m *testing.M) {
	if os.Getenv(asFairlock) != "1" {
		// Under nohup, or in a script's background job, a signal may be ignored. Processes launched
		// here would then ignore the signal, too.
		for _, each := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(each) {
				signal.Notify(make(chan os.Signal, 1), each)
			}
		}
		redis.SetLogger(silence{})
		goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(dials))
		return
	}
	code := execute(os.Args[1:])
	if err := goleak.Find(goleak.IgnoreAnyFunction(dials), goleak.IgnoreAnyFunction(unread)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = leaked
	}
	os.Exit(code)
}

// patienceOfTests bounds every wait. No wait should come near it.
const patienceOfTests = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(patienceOfTests, ok) {
		t.Fatalf("waited %v in vain until %s", patienceOfTests, what)
	}
}

// tool is a fairlock process under test.
type tool struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of standard output
	stderr written.Text
	done   chan struct{}
}

// fairlockWith prepares a fairlock with these variables added to its environment.
func fairlockWith(t *testing.T, env []string, args ...string) *tool {
	p := &tool{t: t, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asFairlock+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stderr = &p.stderr
	return p
}

// launch starts a fairlock on the test's server.
func launch(t *testing.T, s *redistest.Server, args ...string) *tool {
	t.Helper()
	return fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, args...).start()
}

func (p *tool) start() *tool {
	p.t.Helper()
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	must(p.t, err)
	// Use our own pipe. A process that the command leaves behind keeps the pipe open, but the test
	// waits for the end of fairlock.
	read, write, err := os.Pipe()
	must(p.t, err)
	p.startOn(write)
	must(p.t, write.Close())
	go func() {
		for text := bufio.NewScanner(read); text.Scan(); {
			p.lines <- text.Text()
		}
		close(p.lines)
	}()
	p.t.Cleanup(func() {
		p.kill()
		_ = read.Close()
		for range p.lines {
		}
	})
	return p
}

// startOn starts fairlock with that standard output, which the test does not read.
func (p *tool) startOn(stdout *os.File) {
	p.t.Helper()
	p.cmd.Stdout = stdout
	p.cmd.WaitDelay = time.Second
	must(p.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	p.t.Cleanup(p.kill)
}

func (p *tool) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// says waits for this line of standard output.
func (p *tool) says(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("stdout says %q, want %q; stderr: %s", got, want, p.stderr.String())
	}
}

func (p *tool) line() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("stdout has ended; stderr: %s", p.stderr.String())
		}
		return line
	case <-time.After(patienceOfTests):
		p.t.Fatalf("nothing on stdout; stderr: %s", p.stderr.String())
	}
	return ""
}

// ended waits for the end of the process and returns the exit code.
func (p *tool) ended() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patienceOfTests):
		p.t.Fatalf("it does not end; stderr: %s", p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// ends waits for the end of the process and checks the exit code.
func (p *tool) ends(want int) {
	p.t.Helper()
	if got := p.ended(); got != want {
		p.t.Fatalf("exit code %d, want %d; stderr: %s", got, want, p.stderr.String())
	}
}

// complains checks that stderr is one line of fairlock's that has all of these texts.
func (p *tool) complains(about ...string) {
	p.t.Helper()
	p.complainsIn(1, about)
}

// complainsTwice checks that stderr is two lines of fairlock's that have all of these texts: a loss
// is said when it is noticed, and how the command ended when it has.
func (p *tool) complainsTwice(about ...string) {
	p.t.Helper()
	p.complainsIn(2, about)
}

func (p *tool) complainsIn(lines int, about []string) {
	p.t.Helper()
	text := p.stderr.String()
	if strings.Count("\n"+text, "\nfairlock: ") != lines || strings.Count(text, "\n") != lines {
		p.t.Errorf("stderr is not %d lines of ours: %q", lines, text)
	}
	for _, part := range about {
		if !strings.Contains(text, part) {
			p.t.Errorf("stderr does not say %q: %q", part, text)
		}
	}
}

// rest returns the lines that are still to come on standard output.
func (p *tool) rest() []string {
	var all []string
	for line := range p.lines {
		all = append(all, line)
	}
	return all
}

// observer returns the test's own Locker on the same server, to inspect locks and to hold them.
func observer(t *testing.T, s *redistest.Server) *fairlock.Locker {
	t.Helper()
	locker := fairlock.New(s.Client(t))
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// inspect returns the lock's present state.
func inspect(t *testing.T, locker *fairlock.Locker, name string) *fairlock.State {
	t.Helper()
	state, err := locker.Inspect(context.Background(), name)
	must(t, err)
	return state
}

// inLine waits until n calls wait.
func inLine(t *testing.T, locker *fairlock.Locker, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d are in line", n), func() bool { return len(inspect(t, locker, name).Waiters) == n })
}
