package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
)

// screen shows the demo to a person. It only adds lines; one of them, the bar, grows.
type screen struct {
	out   io.Writer
	plain io.Writer // gets only the results; nil: everything is shown
	json  bool      // print the results as JSON
	output.Colour
	live     bool // a terminal: a line may be overwritten
	headings int
	barred   bool // the cursor is on the bar
}

// watchedFile is a file for people or programs. The demo ends once it cannot be written.
type watchedFile struct {
	file   *os.File
	unread context.CancelCauseFunc
}

func (f watchedFile) Write(text []byte) (int, error) {
	n, err := f.file.Write(text)
	if err != nil {
		f.unread(output.Written(err))
	}
	return n, err
}

// newScreen shows on out. It calls unread if that fails.
func newScreen(out *os.File, unread context.CancelCauseFunc, plain, noColour bool) *screen {
	shown := watchedFile{out, unread}
	if plain {
		return &screen{out: io.Discard, plain: shown}
	}
	return &screen{out: shown, live: output.IsTerminal(out), Colour: output.ColourFor(out) && !output.Colour(noColour)}
}

// shades are the workers' colours.
var shades = []string{"36", "35", "34", "33", "32", "96", "95", "94", "93", "92"}

// worker returns a worker's name in its colour.
func (s *screen) worker(number int) string {
	return s.Paint(shades[number%len(shades)], "worker "+letter(number))
}

// title says what is going to happen, and where.
func (s *screen) title(workers int, where string) {
	fmt.Fprintf(s.out, "%s  %s\n", s.Paint(output.Bold, "fairlock demo"), s.Dim(fmt.Sprintf("%d worker processes on %s", workers, where)))
}

// heading begins a new scenario.
func (s *screen) heading(title string) {
	s.headings++
	fmt.Fprintf(s.out, "\n%s\n", s.Paint(output.Bold, fmt.Sprintf("%d  %s", s.headings, title)))
}

// say adds a line.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintln(s.out, "   "+strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// aside adds a line that matters less.
func (s *screen) aside(format string, args ...any) {
	s.say("%s", s.Dim(fmt.Sprintf(format, args...)))
}

// wrap breaks a long text into lines.
func (s *screen) wrap(text string) string {
	const width = 72
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		if last := &lines[len(lines)-1]; len(*last)+len(word) < width {
			*last += " " + word
		} else {
			lines = append(lines, " "+word)
		}
	}
	return s.Dim("  " + strings.Join(lines, "\n  "))
}

// job prints a job that has the lock.
func (s *screen) job(e event, remark string) {
	s.say("%-7s %s   waited %11s   token %d   %s", e.Who, s.worker(e.Worker), output.Milliseconds(e.waited()), e.Token, s.Paint(output.Yellow, remark))
}

// lost prints a job that died in line.
func (s *screen) lost(who string, worker int) {
	s.aside("%-7s worker %s   died with its worker", who, letter(worker))
}

// strike prints what is done to a worker.
func (s *screen) strike(format string, args ...any) {
	s.say("%s", s.Paint(output.Red, fmt.Sprintf(format, args...)))
}

// bar shows how much of all is sold.
func (s *screen) bar(sold, all int) {
	const width = 50
	filled := sold * width / all
	bar := s.Paint(output.Green, strings.Repeat("█", filled)) + s.Dim(strings.Repeat("░", width-filled))
	switch {
	case s.live:
		fmt.Fprintf(s.out, "\r   doors open: %s %3d sold", bar, sold)
		s.barred = true
	case sold == all:
		s.say("doors open: %s %3d sold", bar, sold)
	}
}

// endBar moves to the next line.
func (s *screen) endBar() {
	if s.barred {
		fmt.Fprintln(s.out)
		s.barred = false
	}
}

// row prints a row of the table.
func (s *screen) row(what, value, remark string, kept bool) {
	mark := s.Paint(output.Green, "✓")
	if !kept {
		mark = s.Paint(output.Red, "✗")
	}
	s.say("%s %-18s %11s   %s", mark, what, value, s.Dim(remark))
}

// verdict prints the last line.
func (s *screen) verdict(kept bool) {
	if kept {
		fmt.Fprintf(s.out, "\n%s\n", s.Paint(output.Green, "Every promise was kept."))
		return
	}
	fmt.Fprintf(s.out, "\n%s\n", s.Paint(output.Red, "A promise was broken."))
}
