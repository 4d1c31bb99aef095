package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

func TestTopPrintsOnceWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := observer(t, s)
	lease, err := a.Lock(t.Context(), "x", fairlock.Note("the holder"))
	must(t, err)
	next := joins(t, a, "next")
	text, once, forPrograms := launch(t, s, "top"), launch(t, s, "top", "--once"), launch(t, s, "top", "--json")
	for _, p := range []*tool{text, once} {
		p.ends(0)
		if text := strings.Join(p.rest(), "\n"); !strings.Contains(text, "the holder") || !strings.Contains(text, "1 locks, 1 held, 1 waiting") || strings.Contains(text, "\x1b") {
			t.Errorf("%s", text)
		}
	}
	forPrograms.ends(0)
	var got struct {
		Waiting int
		Locks   []struct{ Lock, Note string }
	}
	if lines := forPrograms.rest(); len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &got) != nil || got.Waiting != 1 || len(got.Locks) != 1 || got.Locks[0].Note != "the holder" {
		t.Errorf("%q", lines)
	}
	must(t, lease.Unlock(t.Context()))
	must(t, (<-next).Unlock(t.Context()))
}

func TestTopShowsPlainLocksWhenAskedTo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := reentrant.New(s.Client(t))
	defer a.Close()
	lease, err := a.Lock(t.Context(), "a plain one")
	must(t, err)
	p := launch(t, s, "top", "--plain")
	p.ends(0)
	if lines := p.rest(); !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "a plain one ") }) || strings.Contains(lines[0], "WAITING") {
		t.Errorf("%q", lines)
	}
	must(t, lease.Unlock(t.Context()))
}

func TestTopWithoutAServerEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := fairlockWith(t, nil, "top", "--redis", "redis://127.0.0.1:1").start()
	p.ends(exit.Unavailable)
	p.complains("refused")
}
