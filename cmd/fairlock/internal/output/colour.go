package output

import (
	"os"
	"runtime"

	"golang.org/x/term"
)

// Colour says whether text may be in colour.
type Colour bool

// The colours, as the terminal's owner has set them.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// ColourFor is colour for a terminal whose owner does not mind.
func ColourFor(out *os.File) Colour { return Colour(IsTerminal(out) && os.Getenv("NO_COLOR") == "") }

// IsTerminal reports whether out is a terminal that understands more than lines.
func IsTerminal(out *os.File) bool {
	return term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
}

// Paint is text in the colour of this code.
func (c Colour) Paint(code, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Dim is text that matters less.
func (c Colour) Dim(text string) string { return c.Paint(Faint, text) }
