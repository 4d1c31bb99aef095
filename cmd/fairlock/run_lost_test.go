//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlock/locks/test/redistest"
)

func TestWhatIsLeftOfTheGroupHasItsGraceToo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	script := `exec 2>/dev/null; sh -c 'trap "sleep 0.1; echo tidied up; exit" TERM; echo in; while :; do sleep 0.01; done' & wait`
	p := launch(t, s, "run", "--lease", "3s", "--kill-after", "10s", "x", "--", "sh", "-c", script)
	p.says("in")
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err())
	p.says("tidied up")
	p.ends(76)
	p.complainsTwice("is told to stop", "exit code 143")
}

func TestACommandWhoseLossIsNoticedLateIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	// The whole grace would be 400 ms, and enough for that. Without any, a busy machine may take as
	// long to find what is to be killed.
	const script = `exec 2>/dev/null; trap "sleep 0.3; echo beside the next" TERM; echo in; while :; do sleep 0.01; done`
	var rest []string
	for range 3 {
		p := launch(t, s, "run", "--lease", "6s", "x", "--", "sh", "-c", script)
		p.says("in")
		must(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		eventually(t, "the lock has expired", func() bool { return inspect(t, locker, "x").Holder == nil })
		must(t, p.cmd.Process.Signal(syscall.SIGCONT))
		p.ends(76)
		p.complainsTwice("is told to stop", "exit code 137")
		if rest = p.rest(); len(rest) == 0 {
			return
		}
	}
	t.Errorf("it had time to say %q", rest)
}

func TestALossIsSaidWhileTheCommandStillWorks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--kill-after", "10m", "x", "--", "sh", "-c", `trap "" TERM; echo in; read line; exit 5`)
	p.says("in")
	must(t, observer(t, s).ForceUnlock(t.Context(), "x"))
	eventually(t, "it says so", func() bool { return strings.Contains(p.stderr.String(), "the command is told to stop") })
	must(t, p.stdin.Close())
	p.ends(76)
	p.complainsTwice(`"x"`, "forced", "exit code 5")
}

func TestACommandThatEndsAfterTheLossIs76WhateverItSays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "x", "--", "sh", "-c", "echo in; read line")
	p.says("in")
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err()) // run notices this only when it unlocks
	_, err := p.stdin.Write([]byte("\n"))
	must(t, err)
	p.ends(76)
	p.complains("lost", "exit code 0")
}

func TestAServerThatIsGoneAtTheEndDoesNotSpoilTheResult(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--lease", "4s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	s.Kill()
	_, err := p.stdin.Write([]byte("\n"))
	must(t, err)
	p.ends(4)
	p.complains("unlock", "the lock is free at the end of its lease")
}

func TestAReleaseThatIsConfirmedOnlyAfterTheLeaseDoesNotSpoilTheResult(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--lease", "4s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	s.Pause()
	over := time.After(4*time.Second + time.Millisecond) // no record lasts for longer
	must(t, p.stdin.Close())                             // the command ends while the lock is trusted
	<-over
	s.Resume()
	p.ends(4)
	p.complains(`unlock "x"`, "confirmed")
}

func TestALockIsSaidToBeReleasedOnlyIfTheServerHasConfirmedIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--verbose", "--lease", "4s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	s.Kill()
	must(t, p.stdin.Close())
	p.ends(4)
	if text := p.stderr.String(); strings.Contains(text, "released") || !strings.Contains(text, "the lock is free at the end of its lease") {
		t.Errorf("stderr: %s", text)
	}
}
