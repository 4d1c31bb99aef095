// Package output prints what commands say: for people, as text that no name can spoil, or for
// programs, as JSON.
package output

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// Flags are the flags of every command that prints.
type Flags struct {
	JSON bool `help:"Print JSON instead, one object per line."`
}

// Page is the output of a command, printed at once when the command ends: for people, in colour if
// out is a terminal, or for programs.
type Page struct {
	Colour
	Width int // of the terminal; 0: out is no terminal

	text strings.Builder
	out  *os.File
	json bool // only Object prints
}

// Page returns a page for standard output.
func (f Flags) Page() *Page {
	p := &Page{out: os.Stdout, Colour: ColourFor(os.Stdout), json: f.JSON}
	if IsTerminal(p.out) {
		p.Width, _, _ = term.GetSize(int(p.out.Fd())) // 0 if the terminal does not know
	}
	return p
}

// Say adds a line for people.
func (p *Page) Say(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(&p.text, format+"\n", args...)
	}
}

// Wrapped breaks text that begins indent characters from the left into lines that fit the terminal.
// It breaks no word, because people may want to copy it.
func (p *Page) Wrapped(text string, indent int) string {
	if p.Width < 2*indent {
		return text // no terminal, or one that is too narrow for anything
	}
	var out strings.Builder
	at := indent
	for word := range strings.FieldsSeq(text) {
		width := ansi.StringWidth(word)
		switch {
		case at == indent:
		case at+1+width > p.Width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

// Object adds a line for programs.
func (p *Page) Object(value any) {
	if !p.json {
		return
	}
	_ = look.JSON(&p.text, value) // our own records can be encoded, and a Builder does not fail
}

// Print prints the page.
func (p *Page) Print() error {
	_, err := p.out.WriteString(p.text.String())
	return Written(err)
}

// Done is Written for a command that has changed something: it says so if that cannot be printed.
func Done(err error, what string) error {
	if err != nil {
		return exit.Errorf(exit.Output, "%w; %s all the same, so look before you repeat it", err, what)
	}
	return nil
}

// Written returns the exit.Error for an error of a write to standard output.
func Written(err error) error {
	if err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}
