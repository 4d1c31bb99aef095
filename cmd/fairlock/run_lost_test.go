//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/fairlock/locks/test/redistest"
)

func TestWhatIsLeftOfTheGroupHasItsGraceToo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	script := `exec 2>/dev/null; sh -c 'trap "sleep 0.1; echo tidied up; exit" TERM; echo in; while :; do sleep 0.01; done' & wait`
	p := launch(t, s, "run", "--lease", "300ms", "--kill-after", "10s", "x", "--", "sh", "-c", script)
	p.says("in")
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err())
	p.says("tidied up")
	p.ends(76)
	p.complains("exit code 143")
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
	p := launch(t, s, "run", "--lease", "2s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	s.Kill()
	_, err := p.stdin.Write([]byte("\n"))
	must(t, err)
	p.ends(4)
	p.complains("unlock", "the lock is free at the end of its lease")
}

func TestALockIsSaidToBeReleasedOnlyIfTheServerHasConfirmedIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--verbose", "--lease", "2s", "x", "--", "sh", "-c", "echo in; read line; exit 4")
	p.says("in")
	s.Kill()
	must(t, p.stdin.Close())
	p.ends(4)
	if text := p.stderr.String(); strings.Contains(text, "released") || !strings.Contains(text, "the lock is free at the end of its lease") {
		t.Errorf("stderr: %s", text)
	}
}
