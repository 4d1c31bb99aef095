package stage

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// live is true if a person watches.
var live = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"

// Say prints a line.
func (s *Stage) Say(format string, args ...any) {
	fmt.Println(strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// Bar shows how much of all is done: a line that grows on a terminal, and that is written once
// anywhere else.
func (s *Stage) Bar(what string, done, all int) {
	const width = 50
	filled := done * width / all
	bar := Green(strings.Repeat("█", filled)) + Dim(strings.Repeat("░", width-filled))
	if live {
		fmt.Printf("\r%s %s %d", what, bar, done)
	}
	if done == all {
		fmt.Print("\r")
		s.Say("%s %s %d", what, bar, done)
	}
}

// Name returns the name of a process, such as B in "worker B", in its own colour.
func Name(kind, name string) string {
	hue := 0
	for _, letter := range name {
		hue += int(letter)
	}
	return paint([]string{"36", "35", "34", "33", "32"}[hue%5], kind+" "+name)
}

// Dim colours what matters less.
func Dim(text string) string { return paint("2", text) }

// Red colours what is done to a process, and clients that are turned away.
func Red(text string) string { return paint("31", text) }

// Green colours what went well.
func Green(text string) string { return paint("32", text) }

func paint(colour, text string) string {
	if !live || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
