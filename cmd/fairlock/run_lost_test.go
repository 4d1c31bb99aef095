//go:build unix

package main

import (
	"strconv"
	"testing"

	"github.com/fairlock/locks/internal/redistest"
)

// obedient says that it was told to end, and does. A shell tells on stderr what ended its children; that is not of interest.
const obedient = `exec 2>/dev/null; trap 'echo told; exit 3' TERM; echo in; while :; do sleep 0.01; done`

func TestACommandWhoseLockIsLostIsToldToEnd(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(*testing.T, *redistest.Server){
		"the record was deleted": func(t *testing.T, s *redistest.Server) {
			must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err())
		},
		"the server is gone":   func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"the server is silent": func(_ *testing.T, s *redistest.Server) { s.Pause() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := launch(t, s, "run", "--lease", "500ms", "--kill-after", "10s", "x", "--", "sh", "-c", obedient)
			p.says("in")
			lose(t, s)
			p.says("told")
			p.ends(76)
			p.complains(`"x"`, "lost", "exit code 3")
		})
	}
}

func TestWhoDoesNotEndWithinTheGraceIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	script := `exec 2>/dev/null; trap 'echo told' TERM; sh -c 'trap "" TERM; echo $$; while :; do sleep 0.01; done' & wait; wait; echo never`
	p := launch(t, s, "run", "--lease", "300ms", "--kill-after", "100ms", "x", "--", "sh", "-c", script)
	pid, err := strconv.Atoi(p.line())
	must(t, err)
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err())
	p.says("told")
	p.ends(76)
	p.complains("lost", "exit code 137")
	eventually(t, "the grandchild is gone too", func() bool { return !alive(pid) })
	if rest := p.rest(); len(rest) > 0 {
		t.Errorf("%q", rest)
	}
}

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

func TestACommandThatWasStoppedIsWokenToEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--lease", "300ms", "x", "--", "sh", "-c", `kill -STOP $$; exit 8`)
	inspectUntilHeld(t, observer(t, s), "x")
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err())
	p.ends(76)
}

func TestACommandThatEndsAfterTheLossIs76WhateverItSays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "x", "--", "sh", "-c", "echo in; read line")
	p.says("in")
	must(t, s.Client(t).Del(t.Context(), "fairlock:lock:{x}").Err()) // not noticed before the unlock
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
	p.complains("unlock")
}
