package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
)

// manCommand is "fairlock man".
type manCommand struct{}

// Help is the long text of "fairlock man --help".
func (*manCommand) Help() string {
	return `Prints the manual page, made from what --help knows:

  fairlock man | man -l -
  fairlock man >/usr/local/share/man/man1/fairlock.1`
}

// Run is called by kong.
func (*manCommand) Run(parser *kong.Kong) error {
	if _, err := os.Stdout.WriteString(manual(parser.Model)); err != nil {
		return exit.Errorf(exit.Output, "standard output: %w", err)
	}
	return nil
}

// roff is a manual page that is being written.
type roff struct{ strings.Builder }

// manual returns the page of the whole program.
func manual(app *kong.Application) string {
	r := &roff{}
	r.macro("TH", strings.ToUpper(app.Name), "1", "", newVersionRecord().Version, "User Commands")
	r.macro("SH", "NAME")
	r.text(app.Name + ` \- ` + escaped(strings.TrimSuffix(app.Help, ".")))
	r.macro("SH", "SYNOPSIS")
	for _, command := range visible(app.Node) {
		r.macro("B", usage(command))
		r.macro("br")
	}
	r.macro("SH", "COMMANDS")
	for _, command := range visible(app.Node) {
		r.command(command)
	}
	r.macro("SH", "SERVER")
	r.prose(server.URLs)
	shown := make(map[string]bool)
	for _, command := range visible(app.Node) {
		for _, flag := range command.Flags {
			if flag.Group != nil && !shown[flag.Name] {
				r.item(flag.String(), flag.Help)
				shown[flag.Name] = true
			}
		}
	}
	return r.String()
}

// visible returns the commands that people use.
func visible(node *kong.Node) (all []*kong.Node) {
	for _, child := range node.Children {
		switch {
		case child.Hidden:
		case len(child.Children) > 0:
			all = append(all, visible(child)...)
		default:
			all = append(all, child)
		}
	}
	return all
}

// usage returns the first line of a command's help.
func usage(command *kong.Node) string { return asTyped("fairlock " + command.Summary()) }

func (r *roff) command(command *kong.Node) {
	r.macro("SS", usage(command))
	r.text(escaped(command.Help))
	r.prose(command.Detail)
	for _, argument := range command.Positional {
		r.item("<"+argument.Name+">", argument.Help)
	}
	for _, flag := range command.Flags {
		if !flag.Hidden && flag.Name != "help" && flag.Group == nil { // groups have a section of their own
			r.item(strings.TrimSpace(flag.String()), flag.Help)
		}
	}
}

// prose adds the long text. Indented lines stay as they are.
func (r *roff) prose(text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		r.macro("PP")
		kept := false
		for line := range strings.Lines(part) {
			if indented := strings.HasPrefix(line, " "); indented != kept {
				r.macro(map[bool]string{true: "RS 2\n.nf", false: "fi\n.RE"}[indented])
				kept = indented
			}
			r.text(escaped(strings.TrimRight(line, "\n")))
		}
		if kept {
			r.macro("fi\n.RE")
		}
	}
}

// item adds a flag or an argument.
func (r *roff) item(name, about string) {
	r.macro("TP")
	r.macro("B", name)
	r.text(escaped(about))
}

// macro adds a line with a request and its arguments.
func (r *roff) macro(name string, arguments ...string) {
	r.WriteString("." + name)
	for _, argument := range arguments {
		fmt.Fprintf(r, ` "%s"`, strings.ReplaceAll(escaped(argument), `"`, `\(dq`))
	}
	r.WriteString("\n")
}

// text adds an escaped line that is no request, however the line begins.
func (r *roff) text(line string) { r.WriteString(`\&` + line + "\n") }

// escaped returns the text without anything that means something to roff.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(text)
}
