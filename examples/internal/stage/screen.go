package stage

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// live is whether a person watches.
var live = term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"

// Say shows a line.
func (s *Stage) Say(format string, args ...any) {
	fmt.Println(strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// Bar shows how much of all is done, in a line that grows on a terminal and is written once anywhere else.
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

// Name is the name of a process, such as B in "worker B", in a colour of its own.
func Name(kind, name string) string {
	hue := 0
	for _, letter := range name {
		hue += int(letter)
	}
	return paint([]string{"36", "35", "34", "33", "32"}[hue%5], kind+" "+name)
}

// Dim is for what matters less.
func Dim(text string) string { return paint("2", text) }

// Red is for what is done to a process, and for who is turned away.
func Red(text string) string { return paint("31", text) }

// Green is for what went well.
func Green(text string) string { return paint("32", text) }

func paint(colour, text string) string {
	if !live || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
