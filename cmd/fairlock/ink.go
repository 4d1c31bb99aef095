package main

import (
	"os"
	"runtime"

	"golang.org/x/term"
)

// ink says whether there is colour.
type ink bool

// The colours, as the terminal's owner has set them.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// inkFor is colour for a terminal whose owner does not mind.
func inkFor(out *os.File) ink { return ink(isLive(out) && os.Getenv("NO_COLOR") == "") }

// isLive reports whether out is a terminal that understands more than lines.
func isLive(out *os.File) bool {
	return term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
}

func (i ink) paint(colour, text string) string {
	if !i || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (i ink) dim(text string) string { return i.paint(faint, text) }
