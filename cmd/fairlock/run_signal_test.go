//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

func TestASignalWhileTheServerIsSilentEndsTheWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "x")
	p := launch(t, s, "run", "x", "--", "echo", "never")
	inLine(t, locker, "x", 1)
	s.Pause()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.ends(143)
	s.Resume()
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

func TestASignalWhileTheLockerClosesDoesNotCostTheCommandsExitCode(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	proxy := faultproxy.New(t, s.Addr())
	p := launch(t, s, "run", "--redis", "redis://"+proxy.Addr(), "--lease", "3s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	renewal := proxy.Add(faultproxy.Rule{Match: faultproxy.Any, Times: 1, Action: faultproxy.HoldRequest()})
	renewal.WaitHit(t, 1, patienceOfTests)
	must(t, p.stdin.Close())
	eventually(t, "the lock is given back", func() bool { return inspect(t, locker, "x").Holder == nil })
	// The Locker waits for the renewal, unless this machine has been busy for two seconds.
	if err := p.cmd.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		must(t, err)
	}
	renewal.Release()
	p.ends(4)
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

// alive reports whether a process exists and is no zombie. Without a /proc it returns false.
func alive(pid int) bool {
	state := stateOf(pid)
	return state != "" && state != "Z"
}

// stateOf is the letter by which /proc tells a process's state; "": there is no process, or no
// /proc.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

func TestOfTheSignalsIgnoredAtItsStartOnlyHangupAndInterruptStayIgnored(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, last := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGTERM} {
		p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr(), "FAIRLOCK=" + os.Args[0]})
		const script = `trap "" HUP INT QUIT TERM; ulimit -c 0; exec "$FAIRLOCK" run x -- sh -c "echo in; read line"`
		p.cmd.Path, p.cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		p.start()
		p.says("in")
		for _, each := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, last} {
			must(t, p.cmd.Process.Signal(each))
		}
		p.ends(128 + int(last))
	}
}
