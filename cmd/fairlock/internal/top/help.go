package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// foot says what the keys do, as far as there is room.
func (m *Model) foot() string {
	switch {
	case m.help:
		return "any key: back"
	case m.open != "":
		return "esc back  ↑↓ move  ? help  q quit"
	default:
		return "q quit  ? help  / filter  enter line  ↑↓ move  " + m.sorts(" ") + "  r reverse"
	}
}

// sorts returns the keys that sort.
func (m *Model) sorts(between string) string {
	var keys []string
	for _, c := range m.sortable() {
		keys = append(keys, c.key+between+c.help)
	}
	return strings.Join(keys, "  ")
}

func (m *Model) viewHelp() []string {
	lines := []string{
		"↑ ↓ pgup pgdn home end  choose a lock; the screen follows it",
		"enter  its line          esc  back",
		"/      filter by name    esc  all again",
		"sort   " + m.sorts(" "),
		"r      reverse           q    quit",
		"",
		"WAITING  calls in line",
		"HAND/S   hand-overs a second, by the last eight looks. Worked",
		"         out: rather too few than too many.",
		"LONGEST  how long the first in line has waited",
		"HELD     for how long its holder has had it",
		"LEASE    until it is free if nobody renews it",
		"Red: some wait for what nobody has. Yellow: the server lost",
		"data, and keeps the lock for who had it.",
		"",
		"The screen is renewed as often as costs the server less than",
		"one percent of its time.",
	}
	if m.plain {
		lines = append(lines[:6], "HAND/S   owners a second, by the last eight looks", "HELD     for how long its holder has had it", "LEASE    until it is free if nobody renews it")
	}
	text := ansi.Wordwrap(strings.Join(lines, "\n"), m.width, "")
	return append([]string{titled.Render("fairlock top")}, strings.Split(text, "\n")...)
}
