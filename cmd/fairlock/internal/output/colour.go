package output

import (
	"os"
	"runtime"

	"golang.org/x/term"
)

// Colour says whether to print text in colour.
type Colour bool

// The colours, with the shades that the owner of the terminal has set.
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// ColourFor returns true for a terminal whose owner does not object to colour.
func ColourFor(out *os.File) Colour { return Colour(IsTerminal(out) && os.Getenv("NO_COLOR") == "") }

// IsTerminal reports whether out is a terminal that understands more than lines.
func IsTerminal(out *os.File) bool {
	return term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
}

// Paint returns text in the colour of this code.
func (c Colour) Paint(code, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Dim returns text in the colour for what matters less.
func (c Colour) Dim(text string) string { return c.Paint(Faint, text) }
