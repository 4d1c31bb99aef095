package main

import (
	"strings"
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestThereIsColourOnATerminalOnlyAndNotForThoseWhoMind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	take(t, locker, "x", fairlock.Note("web-1"))
	waits(t, locker, "x")
	for script, coloured := range map[string]bool{
		`TERM=xterm $FAIRLOCK ls`:            true,
		`TERM=xterm $FAIRLOCK show x`:        true,
		`TERM=xterm $FAIRLOCK doctor`:        true,
		`TERM=xterm NO_COLOR=1 $FAIRLOCK ls`: false,
		`TERM=dumb $FAIRLOCK ls`:             false,
		`TERM=xterm $FAIRLOCK ls --json`:     false,
		`TERM=xterm $FAIRLOCK ls | cat`:      false,
	} {
		c := sitDown(t, s, "sh", "-c", "unset NO_COLOR; "+script)
		c.ends(0)
		c.sees("\n") // waits until all of the output has come
		if got := strings.Contains(c.seen.String(), "\x1b["); got != coloured {
			t.Errorf("%s: colour %v: %q", script, got, c.seen.String())
		}
	}
}

func TestATableFitsTheTerminalAndKeepsNamesAndIDsWhole(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locker := observer(t, s)
	name, note := "order:"+strings.Repeat("4", 20), strings.Repeat("long ", 20)+"end"
	take(t, locker, name, fairlock.Note(note))
	waits(t, locker, name, fairlock.Note(note))
	id := inspect(t, locker, name).Waiters[0].ID
	for command, whole := range map[string]string{"ls": name, "show " + name: id} {
		c := sitDown(t, s, "sh", "-c", "stty cols 80; NO_COLOR=1 TERM=xterm exec $FAIRLOCK "+command)
		c.ends(0)
		c.sees("…")
		text := c.seen.String()
		if !strings.Contains(text, whole) {
			t.Errorf("%s: no %q in %s", command, whole, text)
		}
		table := text[max(strings.Index(text, "PLACE"), strings.Index(text, "NAME")):]
		for line := range strings.Lines(table) {
			if n := len([]rune(strings.TrimSpace(line))); n > 80 {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
		if piped := prints(t, s, 0, strings.Fields(command)...); !strings.Contains(piped, note) {
			t.Errorf("%s cuts what nobody needs cut: %s", command, piped)
		}
	}
}
