//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/internal/redistest"
)

var forwarded = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}

func TestASignalWhileWaitingLeavesTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	for name, sig := range forwarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := hold(t, locker, name)
			p := launch(t, s, "run", name, "--", "echo", "never")
			inLine(t, locker, name, 1)
			next := launch(t, s, "run", name, "--", "echo", "in")
			inLine(t, locker, name, 2)
			must(t, p.cmd.Process.Signal(sig))
			p.ends(128 + int(sig))
			p.complains(name)
			if n := len(inspect(t, locker, name).Waiters); n != 1 {
				t.Errorf("%d are in line when it has ended", n)
			}
			must(t, gate.Unlock(t.Context()))
			next.says("in")
			next.ends(0)
			if rest := p.rest(); len(rest) > 0 {
				t.Errorf("it ran: %q", rest)
			}
		})
	}
}

func TestASignalWhileTheServerIsSilentEndsTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	hold(t, locker, "x")
	p := launch(t, s, "run", "x", "--", "echo", "never")
	inLine(t, locker, "x", 1)
	s.Pause()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(143)
	s.Resume()
}

func TestASignalGoesToTheCommandsWholeGroup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, sig := range forwarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The inner shell hears it by itself, the outer one lives to tell what became of it.
			script := `trap 'echo outer' $0; sh -c "trap 'echo inner; exit 5' $0; echo in; while :; do sleep 0.01; done"; echo "inner ended with $?"; exit 9`
			p := launch(t, s, "run", name, "--", "sh", "-c", script, name)
			p.says("in")
			must(t, p.cmd.Process.Signal(sig))
			p.says("inner")
			p.says("outer")
			p.says("inner ended with 5")
			p.ends(9)
		})
	}
}

func TestACommandThatASignalEndsIs128AndItsNumber(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "x", "--", "sh", "-c", "echo in; exec sleep 60")
	p.says("in")
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(143)
	if text := p.stderr.String(); text != "" {
		t.Errorf("stderr: %q", text)
	}
}

func TestTheCommandIsInAProcessGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p := launch(t, redistest.Start(t), "run", "x", "--", "sh", "-c", "echo $$; read line")
	pid, err := strconv.Atoi(p.line())
	must(t, err)
	group, err := unix.Getpgid(pid)
	must(t, err)
	if group != pid {
		t.Errorf("process %d is in group %d", pid, group)
	}
	must(t, p.stdin.Close())
	p.ends(1)
}

func TestWhoWasStartedToIgnoreHangupsDoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "x", "--", "sh", "-c", "echo in; read line; echo $line")
	p.says("in")
	must(t, p.stdin.Close())
	p.ends(0)
	// The same as nohup does it.
	locker := observer(t, s)
	gate := hold(t, locker, "x")
	p = fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "run", "x", "--", "echo", "in")
	p.cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, p.cmd.Path}, p.cmd.Args[1:]...)
	shell, err := exec.LookPath("sh")
	must(t, err)
	p.cmd.Path = shell
	p.start()
	inLine(t, locker, "x", 1)
	must(t, p.cmd.Process.Signal(syscall.SIGHUP))
	must(t, gate.Unlock(t.Context()))
	p.says("in")
	p.ends(0)
}

// alive reports whether a process exists and is no zombie. Without a /proc it sees nobody.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
