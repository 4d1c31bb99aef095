package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// trial is one case for which flock(1), consul lock and fairlock run are compared. docs/run.md
// shows the trials as a table.
type trial struct {
	about    string
	flock    string // the result of play with this machine's flock; "-": flock has nothing of the kind; (in brackets): not played
	consul   string // from the documentation and the source of consul
	fairlock string // the result of play
	play     func(*fixture) string
}

// trials returns all trials. Each is played against a redis-server.
func trials() []trial {
	var all []trial
	for _, some := range [][]trial{trialsOfExitCodes, trialsOfStreams, trialsOfSignals, trialsOfOffspring, trialsOfLosses, trialsOfLines} {
		all = append(all, some...)
	}
	return all
}

func TestRunStandsTheTrialsBesideFlock(t *testing.T) {
	t.Parallel()
	if n := len(trials()); n < 40 {
		t.Errorf("there are %d trials", n)
	}
	server := redistest.Start(t)
	locker := observer(t, server)
	_, err := exec.LookPath("flock")
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, 8)              // more than there are processors, because trials mostly wait
	for _, c := range slices.Backward(trials()) { // the slow ones first
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			t.Run(c.about, func(t *testing.T) { c.try(t, server, locker, err == nil) })
		})
	}
}

// try plays the trial.
func (c *trial) try(t *testing.T, server *redistest.Server, locker *fairlock.Locker, flock bool) {
	s := &fixture{T: t, server: server, locker: locker, name: t.Name(), dir: t.TempDir()}
	if got := c.play(s); got != c.fairlock {
		t.Errorf("fairlock: %s, want %s", got, c.fairlock)
	}
	if c.flock == "-" || c.flock[0] == '(' || !flock {
		return
	}
	s = &fixture{T: t, flock: true, name: "lock", dir: t.TempDir()}
	if got := c.play(s); got != c.flock {
		t.Errorf("flock: %s, want %s", got, c.flock)
	}
}

func TestTheTableInTheDocumentationIsThatOfTheTrials(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	want.WriteString("| case | flock | consul lock | fairlock run |\n| --- | --- | --- | --- |\n")
	for _, c := range trials() {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", c.about, strings.Trim(c.flock, "()"), c.consul, c.fairlock)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "run.md"))
	must(t, err)
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/run.md does not have the table:\n%s", want.String())
	}
}

// fixture is the place for one tool: it has a lock of its own.
type fixture struct {
	*testing.T
	flock  bool              // try flock(1), not fairlock
	server *redistest.Server // for fairlock
	locker *fairlock.Locker  // on that server
	name   string            // of the lock; with flock, of the file in dir
	dir    string
}

// inFlocksWords translates the flags that flock has, too.
var inFlocksWords = map[string][]string{
	"--wait=0":               {"-n"},
	"--wait=5s":              {"-w", "5"},
	"--conflict-exit-code=9": {"-E", "9"},
}

// runFlags are flags of fairlock run.
type runFlags []string

// command returns the tool's command line.
func (s *fixture) command(f runFlags, command ...string) *exec.Cmd {
	var args []string
	program := os.Args[0]
	if s.flock {
		program = "flock"
		for _, each := range f {
			words, ok := inFlocksWords[each]
			if !ok {
				s.Fatalf("flock has no %s", each)
			}
			args = append(args, words...)
		}
		args = append(append(args, filepath.Join(s.dir, s.name)), command...)
	} else {
		args = append(append(append(append(args, "run"), f...), s.name, "--"), command...)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), asFairlock+"=1", "GORACE=atexit_sleep_ms=0", "FAIRLOCK="+os.Args[0])
	if s.server != nil {
		cmd.Env = append(cmd.Env, "FAIRLOCK_REDIS=redis://"+s.server.Addr())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run starts the tool. When the test ends, it also ends what flock leaves behind.
func (s *fixture) run(f runFlags, command ...string) *tool {
	s.Helper()
	return s.start(s.command(f, command...))
}

func (s *fixture) start(cmd *exec.Cmd) *tool {
	s.Helper()
	p := &tool{t: s.T, cmd: cmd, lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	p.start()
	s.Cleanup(func() { _ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) }) // the tool and, with flock, the command
	return p
}

// sh starts the tool with a shell script as its command.
func (s *fixture) sh(f runFlags, script string, args ...string) *tool {
	s.Helper()
	return s.run(f, append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// through starts the tool from a shell that first runs preparation, and then exec "$@".
func (s *fixture) through(preparation string, cmd *exec.Cmd) *tool {
	s.Helper()
	shell, err := exec.LookPath("sh")
	must(s.T, err)
	cmd.Path, cmd.Args = shell, append([]string{"sh", "-c", preparation + `exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	return s.start(cmd)
}

// ended waits for the end of p and returns its exit code as a shell sees it.
func (s *fixture) ended(p *tool) int {
	s.Helper()
	eventually(s.T, "it has ended", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	return asAShellSees(p.cmd.ProcessState)
}

// asAShellSees returns the exit code, or 128 plus the number of the signal.
func asAShellSees(state *os.ProcessState) int {
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// ends returns the same as text.
func (s *fixture) ends(p *tool) string {
	s.Helper()
	return fmt.Sprint(s.ended(p))
}

// waits waits until p waits for the lock.
func (s *fixture) waits(p *tool) {
	s.Helper()
	eventually(s.T, "it waits", func() bool {
		if s.flock {
			locks, err := os.ReadFile("/proc/locks")
			must(s.T, err)
			return strings.Contains(string(locks), fmt.Sprintf("-> FLOCK  ADVISORY  WRITE %d ", p.cmd.Process.Pid))
		}
		for _, w := range inspect(s.T, s.locker, s.name).Waiters {
			if strings.Contains(w.Note, fmt.Sprintf(":%d ", p.cmd.Process.Pid)) {
				return true
			}
		}
		return false
	})
}

// taken holds the lock with a command that ends when its standard input does.
func (s *fixture) taken() *tool {
	s.Helper()
	p := s.sh(nil, "echo in; read line; exit 0")
	p.says("in")
	return p
}

// free says whether the lock can be had.
func (s *fixture) free() string {
	s.Helper()
	if s.ended(s.run(runFlags{"--wait=0"}, "true")) == 0 {
		return "without the lock"
	}
	return "with the lock"
}

// hit sends p a signal.
func (s *fixture) hit(p *tool, sig syscall.Signal) {
	s.Helper()
	must(s.T, p.cmd.Process.Signal(sig))
}

// heard returns when p has taken in its signals: the kernel has none left for it, and it sleeps.
func (s *fixture) heard(p *tool) {
	s.Helper()
	eventually(s.T, "it has heard its signals", func() bool {
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.cmd.Process.Pid))
		must(s.T, err)
		for _, task := range all {
			status, _ := os.ReadFile(task) // the thread may have ended
			if text := string(status); strings.Contains(text, "State:\tR") || strings.Count(text, "Pnd:\t0000000000000000") < 2 {
				return false
			}
		}
		return true
	})
}
