// Package output is what commands print: for people, as text that no name in it can upset, or for
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

// Flags are those of every command that prints.
type Flags struct {
	JSON bool `help:"Print JSON instead, one object per line."`
}

// Page is what a command prints, all at once at its end: for people, in colour where they see it,
// or for programs.
type Page struct {
	Colour
	Width int // of the terminal; 0: it is none

	text strings.Builder
	out  *os.File
	json bool // only what is given to Object is printed
}

// Page begins one on standard output.
func (f Flags) Page() *Page {
	p := &Page{out: os.Stdout, Colour: ColourFor(os.Stdout), json: f.JSON}
	if IsTerminal(p.out) {
		p.Width, _, _ = term.GetSize(int(p.out.Fd())) // 0 if it does not know
	}
	return p
}

// Say adds a line for people.
func (p *Page) Say(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(&p.text, format+"\n", args...)
	}
}

// Wrapped is text that begins so far from the left, in lines that fit the terminal. No word is
// broken: it may be there to be copied.
func (p *Page) Wrapped(text string, indent int) string {
	if p.Width < 2*indent {
		return text // it is no terminal, or one that nothing fits
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

// Print ends the page.
func (p *Page) Print() error {
	_, err := p.out.WriteString(p.text.String())
	return Written(err)
}

// Written is the exit.Error for what a write to standard output may end with.
func Written(err error) error {
	if err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}
