package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/written"
)

// console is a terminal with a person at it.
type console struct {
	t      *testing.T
	master *os.File
	seen   written.Text
	read   chan struct{} // closed when seen has all output: no process has the terminal open any more
	done   chan struct{}
	cmd    *exec.Cmd
}

// sitDown starts a program on a new terminal, as the leader of a session.
func sitDown(t *testing.T, s *redistest.Server, program string, args ...string) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT SHOWN: no terminals here: %v", err)
	}
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	defer slave.Close()
	c := &console{t: t, master: master, read: make(chan struct{}), done: make(chan struct{}), cmd: exec.Command(program, args...)}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.cmd.Env = append(os.Environ(), asFairlock+"=1", "GORACE=atexit_sleep_ms=0", "FAIRLOCK_REDIS=redis://"+s.Addr(), "FAIRLOCK="+os.Args[0], "PS1=ready> ")
	must(t, c.cmd.Start())
	go func() {
		defer close(c.read)
		_, _ = io.Copy(&c.seen, master) // ends with an error when no process has the terminal open any more
	}()
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(c.standUp)
	return c
}

// standUp ends all processes of the session: the jobs of a shell are not in its process group.
func (c *console) standUp() {
	session := c.cmd.Process.Pid
	eventually(c.t, "no process has the terminal open any more", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			if of, err := unix.Getsid(pid); err == nil && of == session {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		select {
		case <-c.read:
			return true
		default:
			return false
		}
	})
	<-c.done
	_ = c.master.Close()
}

func (c *console) types(text string) {
	c.t.Helper()
	_, err := c.master.WriteString(text)
	must(c.t, err)
}

// sees waits for a text that comes after all that was seen before.
func (c *console) sees(text string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("on the screen: %q", c.seen.String())
		}
	}()
	eventually(c.t, fmt.Sprintf("the screen shows %q", text), func() bool { return strings.Contains(c.seen.String(), text) })
}

func (c *console) ends(want int) {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patienceOfTests):
		c.t.Fatalf("it does not end, screen: %q", c.seen.String())
	}
	if got := asAShellSees(c.cmd.ProcessState); got != want {
		c.t.Fatalf("exit code %d, want %d, screen: %q", got, want, c.seen.String())
	}
}

const echoing = `echo wai''ting; read line; echo "got $line"`

func TestACommandMayReadFromTheTerminal(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), os.Args[0], "run", "x", "--", "sh", "-c", echoing)
	c.sees("waiting")
	c.types("hello\n")
	c.sees("got hello")
	c.ends(0)
}

func TestCtrlCReachesTheCommand(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), os.Args[0], "run", "x", "--", "sh", "-c", `trap 'echo interrupted; exit 5' INT;`+echoing)
	c.sees("waiting")
	c.types("\x03")
	c.sees("interrupted")
	c.ends(5)
}

func TestCtrlCWhileWaitingLeavesTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "x")
	c := sitDown(t, s, os.Args[0], "run", "x", "--", "true")
	inLine(t, locker, "x", 1)
	c.types("\x03")
	c.ends(130)
	inLine(t, locker, "x", 0)
}

// The exit code of a Ctrl-C may also be the one for a lock that was not acquired.
func TestAConflictThatIsToExitLikeACtrlCSaysWhoHasTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, observer(t, s), "x", fairlock.Note("web-1"))
	c := sitDown(t, s, os.Args[0], "run", "--wait", "0", "--conflict-exit-code", "130", "x", "--", "true")
	c.sees("web-1")
	c.ends(130)
	if c.cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it died: %v", c.cmd.ProcessState)
	}
}

func TestALineOfTheWaitingFitsTheTerminalAlsoWithWideCharacters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	name := strings.Repeat("鎖", 60)
	take(t, locker, name)
	c := sitDown(t, s, "sh", "-i")
	c.sees("ready> ")
	c.sized(50, 10)
	c.types(`"$FAIRLOCK" run -v ` + name + " -- true\n")
	c.sees("\r\x1b[K") // it is drawn again
	_, line, found := strings.Cut(c.seen.String(), "fairlock: waiting")
	line, _, _ = strings.Cut("fairlock: waiting"+line, "\r")
	if width := ansi.StringWidth(line); !found || width < 48 || width > 49 {
		t.Errorf("%q is %d wide", line, width)
	}
	c.types("\x03")
	inLine(t, locker, name, 0)
}

func TestCtrlZDoesNothingWhereThereIsNoJobControl(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), os.Args[0], "run", "x", "--", "sh", "-c", echoing)
	c.sees("waiting")
	c.types("\x1a")
	c.types("hello\n")
	c.sees("got hello")
	c.ends(0)
}

func TestCtrlZStopsTheJobAndFgGoesOnWithIt(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run x -- sh -c '` + strings.ReplaceAll(echoing, "'", `"`) + "'\n")
	c.sees("waiting")
	c.types("\x1a")
	c.sees("Stopped")
	c.types("echo the shell is he''re\n")
	c.sees("the shell is here")
	c.types("fg\n")
	c.types("hello\n")
	c.sees("got hello")
	c.types("echo and the terminal is ba''ck; exit 6\n")
	c.sees("and the terminal is back")
	c.ends(6)
}

func TestACtrlZThatReachesFairlockStopsTheCommandToo(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run x -- sh -c '{ sleep 0.2; kill -TSTP $PPID; } & read line; echo "got $line"'` + "\n")
	c.sees("Stopped")
	c.types("echo the shell is he''re\n") // the command must not read that
	c.sees("the shell is here")
	c.types("fg\n")
	c.types("hello\n")
	c.sees("got hello")
	c.types("exit 6\n")
	c.ends(6)
}

// With tostop, a job in the background that writes to its terminal is stopped.
func TestAJobInTheBackgroundEndsItsCommandThoughItsComplaintMayNotBeWritten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	c := sitDown(t, s, "sh", "-i")
	c.sees("ready> ")
	c.types(`stty tostop; "$FAIRLOCK" run --lease 6s x -- sh -c 'trap "" TERM; exec sleep 600' & wait $!; echo co''de $?; exit 6` + "\n")
	eventually(t, "it has the lock", func() bool { return inspect(t, locker, "x").Holder != nil })
	must(t, locker.ForceUnlock(t.Context(), "x"))
	c.sees("code 76")
	c.ends(6)
}

func TestAJobWhoseLockWasLostWhileItWasStoppedIsEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := sitDown(t, s, "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run --lease 6s x -- sh -c '` + strings.ReplaceAll(echoing, "'", `"`) + "'\n")
	c.sees("waiting")
	c.types("\x1a")
	c.sees("Stopped")
	locker := observer(t, s)
	eventually(t, "the lock has expired", func() bool { return inspect(t, locker, "x").Holder == nil })
	c.types("fg\n")
	c.sees("the command is told to stop")
	c.types("echo code $?; exit 0\n")
	c.sees("code 76")
	c.ends(0)
}

func TestAPagerKeepsTheTerminalThatItSharesWithTheCommand(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run x -- sh -c 'echo wai""ting; exec sleep 60' | { read first; echo $first; read line </dev/tty; echo "pager g""ot $line"; cat; }` + "\n")
	c.sees("waiting")
	c.types("one\n")
	c.sees("pager got one")
	c.types("\x03")
	c.types("\n")
	c.types("exit 6\n")
	c.ends(6)
}

func TestAPagerKeepsItsModesWhenTheCommandIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// Like a pager, the reader changes the modes only after the command has started.
	const pager = `{ read first; stty -echo </dev/tty; echo $first; cat; stty -a </dev/tty; stty echo </dev/tty; }`
	c := sitDown(t, s, "sh", "-c", `"$FAIRLOCK" run --lease 6s x -- sh -c 'echo wai""ting; exec sleep 60' | `+pager+"; exit 6")
	c.sees("waiting")
	must(t, observer(t, s).ForceUnlock(t.Context(), "x"))
	c.ends(6)
	<-c.read
	if text := c.seen.String(); !strings.Contains(text, " -echo ") {
		t.Errorf("screen: %q", text)
	}
}

func TestCtrlZStopsAPipelineAndTheCommandWithIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	c := sitDown(t, s, "sh", "-i")
	c.sees("ready> ")
	c.types(`"$FAIRLOCK" run --lease 6s x -- sh -c 'echo wai""ting; exec sleep 60' | cat` + "\n")
	c.sees("waiting")
	c.types("\x1a")
	c.sees("Stopped")
	eventually(t, "fairlock stands still, too: the lock has expired", func() bool { return inspect(t, locker, "x").Holder == nil })
	c.types("fg\n")
	c.sees("the command is told to stop")
	c.types("exit 6\n")
	c.ends(6)
}

func TestCtrlZStopsAScriptWhoseOutputGoesElsewhereAndTheCommandWithIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	c := sitDown(t, s, "sh", "-i")
	c.sees("ready> ")
	c.types(`sh -c '"$FAIRLOCK" run --lease 6s x -- sh -c "echo wai\"\"ting >/dev/tty; exec sleep 60"; exit $?' >/dev/null` + "\n")
	c.sees("waiting")
	c.types("\x1a")
	c.sees("Stopped")
	eventually(t, "fairlock stands still, too: the lock has expired", func() bool { return inspect(t, locker, "x").Holder == nil })
	c.types("fg\n")
	c.sees("the command is told to stop")
	c.types("echo code $?; exit 6\n")
	c.sees("code 76")
	c.ends(6)
}

func TestCtrlZDoesNothingToAScriptThatIgnoresIt(t *testing.T) {
	t.Parallel()
	c := sitDown(t, redistest.Start(t), "sh", "-i")
	c.sees("ready> ")
	c.types(`sh -c 'trap "" TSTP; "$FAIRLOCK" run x -- sh -c "echo wai\"\"ting >/dev/tty; read line </dev/tty; echo \"got \$line\" >/dev/tty"; exit 5' >/dev/null` + "\n")
	c.sees("waiting")
	c.types("\x1a")
	c.types("hello\n")
	c.sees("got hello")
	c.types("echo code $?; exit 6\n")
	c.sees("code 5")
	c.ends(6)
}

func TestACommandThatReadsFromATerminalThatNoShellCanGiveItIsHungUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	gate := filepath.Join(t.TempDir(), "gate")
	must(t, unix.Mkfifo(gate, 0o600))
	c := sitDown(t, s, "sh", "-i")
	t.Cleanup(func() { _ = locker.ForceUnlock(context.Background(), "x") }) // nothing else reaches an orphan
	c.sees("ready> ")
	c.types(`sh -c 'set -m; "$FAIRLOCK" run x -- sh -c "read go <` + gate + `; read line </dev/tty; sleep 60" &'; echo the job is an or''phan` + "\n")
	c.sees("the job is an orphan")
	must(t, os.WriteFile(gate, []byte("go\n"), 0)) // waits for the command
	c.sees("no shell can give it")
	eventually(t, "the lock is free", func() bool { return inspect(t, locker, "x").Holder == nil })
	c.types("exit 6\n")
	c.ends(6)
}

func TestCtrlCEndsTheScriptThatRunsUs(t *testing.T) {
	t.Parallel()
	const us = `"$FAIRLOCK" run x -- sh -c "echo wai''ting; exec sleep 60"`
	for _, script := range []string{us, us + " | cat"} {
		for _, shell := range []string{"sh", "bash"} { // these tell by different signs that Ctrl-C ended us
			t.Run(shell+" "+script, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(shell); err != nil {
					t.Skipf("NOT SHOWN: %v", err)
				}
				c := sitDown(t, redistest.Start(t), shell, "-c", script+"; echo went on")
				c.sees("waiting")
				c.types("\x03")
				<-c.done
				<-c.read
				if text := c.seen.String(); strings.Contains(text, "went on") {
					t.Errorf("screen: %q", text)
				}
			})
		}
	}
}

func TestACommandThatIsKilledLeavesAnEchoBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := sitDown(t, s, "sh", "-c", `"$FAIRLOCK" run --lease 6s x -- sh -c 'stty -echo; echo wai""ting; exec sleep 60'; stty -a; exit 6`)
	c.sees("waiting")
	must(t, observer(t, s).ForceUnlock(t.Context(), "x"))
	c.ends(6)
	<-c.read
	if text := c.seen.String(); !strings.Contains(text, " echo ") {
		t.Errorf("screen: %q", text)
	}
}

func TestATerminalShowsTheWaitingInOneLineThatGoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	gate := take(t, observer(t, s), "x")
	c := sitDown(t, s, os.Args[0], "run", "x", "--", "echo", "in")
	c.sees(`waiting for "x" for `)
	c.sees(`s: place 1 in line; `)
	c.sees("\r\x1b[Kfairlock: waiting for \"x\" for ") // written anew; a busy machine leaves out a second
	must(t, gate.Unlock(t.Context()))
	c.ends(0)
	<-c.read
	text := c.seen.String()
	if lines := strings.Count(text, "\n"); lines != 1 || !strings.HasSuffix(text, "\r\x1b[Kin\r\n") {
		t.Errorf("%q", text)
	}
}

func TestZshCompletesANameWithABackslash(t *testing.T) {
	t.Parallel()
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skipf("NOT SHOWN: no zsh here: %v", err)
	}
	s := redistest.Start(t)
	locker := observer(t, s)
	for _, name := range []string{`back\slash`, `colon:and\:both`, `it's at the end\`} {
		take(t, locker, name, fairlock.Note("whoever has "+name))
	}
	home := t.TempDir()
	must(t, os.WriteFile(filepath.Join(home, ".zshrc"), []byte(`autoload -U compinit; compinit -u; source <(fairlock completion zsh); PS1='ready> '`), 0o600))
	c := sitDown(t, s, "env", "ZDOTDIR="+home, "PATH="+onPath(t)+":"+os.Getenv("PATH"), "TERM=dumb", zsh, "-i")
	c.sees("ready> ")
	for typed, want := range map[string]string{"bac": `back\slash`, "co": `colon:and\:both`, "it": `it's at the end\`} {
		shown := func() bool { return strings.Contains(c.seen.String(), "whoever has "+want) }
		for began := time.Now(); !shown() && time.Since(began) < patienceOfTests; { // a busy machine needs more than its second
			prompts := strings.Count(c.seen.String(), "ready> ")
			c.types("fairlock show " + typed + "\t\r")
			eventually(t, "it may be typed again", func() bool {
				return shown() || strings.Count(c.seen.String(), "ready> ") > prompts
			})
		}
		c.sees("whoever has " + want)
	}
	c.types("exit 6\r")
	c.ends(6)
}
