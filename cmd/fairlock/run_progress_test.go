//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestVerboseTellsOfThePlaceOfTheLockAndOfItsRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	gate, err := locker.Lock(t.Context(), "x", fairlock.Note("the gate"))
	must(t, err)
	first := launch(t, s, "run", "x", "--", "true")
	inLine(t, locker, "x", 1)
	p := launch(t, s, "run", "--verbose", "x", "--", "true")
	eventually(t, "it tells its place", func() bool { return strings.Contains(p.stderr.String(), "\n") })
	must(t, gate.Unlock(t.Context()))
	first.ends(0)
	p.ends(0)
	if text := first.stderr.String(); text != "" {
		t.Errorf("who is not asked says %q", text)
	}
	text := p.stderr.String()
	for _, want := range []string{
		`fairlock: waiting for "x": place 2 in line; the gate has had it for `,
		`fairlock: "x" acquired after `,
		`fairlock: "x" released after `,
	} {
		_, rest, found := strings.Cut(text, want)
		if !found {
			t.Errorf("%q does not come, or not in its turn:\n%s", want, p.stderr.String())
		}
		text = rest
	}
	if strings.Contains(p.stderr.String(), "\x1b") {
		t.Errorf("escape sequences, and no terminal: %q", p.stderr.String())
	}
}

func TestANoteIsSeenBesideHostAndProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := launch(t, s, "run", "--note", "release 42", "x", "--", "sh", "-c", "echo in; read line; exit 0")
	p.says("in")
	if note := inspect(t, observer(t, s), "x").Holder.Note; !strings.HasSuffix(note, " release 42") || !strings.Contains(note, ":") {
		t.Errorf("note: %q", note)
	}
	must(t, p.stdin.Close())
	p.ends(0)
}
