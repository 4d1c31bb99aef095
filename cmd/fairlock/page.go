package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
)

// output is the flag of every verb that prints.
type output struct {
	JSON bool `help:"Print JSON instead, one object per line."`
}

// page is what a verb prints, all at once at its end: for people, in colour where they see it, or for programs.
type page struct {
	ink
	text  strings.Builder
	out   *os.File
	width int  // of the terminal; 0: it is none
	json  bool // only what is given to object is printed
}

// page begins one on standard output.
func (o output) page() *page {
	p := &page{out: os.Stdout, ink: inkFor(os.Stdout), json: o.JSON}
	if isLive(p.out) {
		p.width, _, _ = term.GetSize(int(p.out.Fd())) // 0 if it does not know
	}
	return p
}

// say adds a line for people.
func (p *page) say(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(&p.text, format+"\n", args...)
	}
}

// wrapped is text that begins so far from the left, in lines that fit the terminal. No word is broken: it may be there to
// be copied.
func (p *page) wrapped(text string, indent int) string {
	if p.width < 2*indent {
		return text // it is no terminal, or one that nothing fits
	}
	var out strings.Builder
	at := indent
	for word := range strings.FieldsSeq(text) {
		width := ansi.StringWidth(word)
		switch {
		case at == indent:
		case at+1+width > p.width:
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

// object adds a line for programs.
func (p *page) object(value any) {
	if !p.json {
		return
	}
	_ = look.JSON(&p.text, value) // our own records can be encoded, and a Builder does not fail
}

// print ends the page.
func (p *page) print() error {
	_, err := p.out.WriteString(p.text.String())
	return written(err)
}

// written is the exit for what a write to standard output may end with.
func written(err error) error {
	if err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}
