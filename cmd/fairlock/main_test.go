package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// asFairlock makes the test binary behave as fairlock itself: so it is also run under the race
// detector.
const asFairlock = "FAIRLOCK_TEST_AS_FAIRLOCK"

// leaked is the exit code of a fairlock that ended with goroutines left.
const leaked = 99

func TestMain(m *testing.M) {
	if os.Getenv(asFairlock) != "1" {
		// Under nohup, or as a script's background job, one of these would stay ignored in whatever
		// is launched here.
		for _, each := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(each) {
				signal.Notify(make(chan os.Signal, 1), each)
			}
		}
		redis.SetLogger(silence{})
		goleak.VerifyTestMain(m)
		return
	}
	code := execute(os.Args[1:])
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = leaked
	}
	os.Exit(code)
}

// patienceOfTests bounds every wait; none should come near it.
const patienceOfTests = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patienceOfTests); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain until %s", patienceOfTests, what)
		}
	}
}

// buffer is a bytes.Buffer that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// tool is a fairlock under test.
type tool struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of standard output
	stderr buffer
	done   chan struct{}
}

// fairlockWith prepares a fairlock with more in its environment.
func fairlockWith(t *testing.T, env []string, args ...string) *tool {
	p := &tool{t: t, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asFairlock+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stderr = &p.stderr
	return p
}

// launch starts a fairlock on a server of the test's.
func launch(t *testing.T, s *redistest.Server, args ...string) *tool {
	t.Helper()
	return fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, args...).start()
}

func (p *tool) start() *tool {
	p.t.Helper()
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	must(p.t, err)
	// A pipe of our own: a process that the command leaves behind keeps it open, and the end of
	// fairlock is what we wait for.
	read, write, err := os.Pipe()
	must(p.t, err)
	p.cmd.Stdout = write
	p.cmd.WaitDelay = time.Second
	must(p.t, p.cmd.Start())
	must(p.t, write.Close())
	go func() {
		for text := bufio.NewScanner(read); text.Scan(); {
			p.lines <- text.Text()
		}
		close(p.lines)
	}()
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = read.Close()
		for range p.lines {
		}
	})
	return p
}

// says waits for a line of standard output.
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

// ends waits for the end and checks the exit code.
func (p *tool) ends(want int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patienceOfTests):
		p.t.Fatalf("it does not end; stderr: %s", p.stderr.String())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Fatalf("exit code %d, want %d; stderr: %s", got, want, p.stderr.String())
	}
}

// complains checks that stderr is one line of ours that says all of this.
func (p *tool) complains(about ...string) {
	p.t.Helper()
	text := p.stderr.String()
	if !strings.HasPrefix(text, "fairlock: ") || strings.Count(text, "\n") != 1 {
		p.t.Errorf("stderr is not one line of ours: %q", text)
	}
	for _, part := range about {
		if !strings.Contains(text, part) {
			p.t.Errorf("stderr does not say %q: %q", part, text)
		}
	}
}

// rest is what is still to come on standard output.
func (p *tool) rest() []string {
	var all []string
	for line := range p.lines {
		all = append(all, line)
	}
	return all
}

// observer is a Locker of the test's own on the same server, to see and to be in the way.
func observer(t *testing.T, s *redistest.Server) *fairlock.Locker {
	t.Helper()
	locker := fairlock.New(s.Client(t))
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// inspect is the lock's state now.
func inspect(t *testing.T, locker *fairlock.Locker, name string) *fairlock.State {
	t.Helper()
	state, err := locker.Inspect(context.Background(), name)
	must(t, err)
	return state
}

// inLine waits until so many wait.
func inLine(t *testing.T, locker *fairlock.Locker, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d are in line", n), func() bool { return len(inspect(t, locker, name).Waiters) == n })
}

// hold takes the lock for the test.
func hold(t *testing.T, locker *fairlock.Locker, name string) *fairlock.Lease {
	t.Helper()
	lease, err := locker.Lock(context.Background(), name)
	must(t, err)
	t.Cleanup(func() { _ = lease.Unlock(context.Background()) }) // most tests have done that
	return lease
}
