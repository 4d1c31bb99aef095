// Package redact keeps passwords out of what is printed and logged. A server, or a proxy, that does
// not know a command answers with the command's arguments. Those of AUTH and HELLO, which a client
// sends by itself, are a user and a password.
package redact

import "strings"

// echo is what a server's error says before it repeats arguments. They end with the line.
const echo = "with args beginning with:"

// Text returns a text without the arguments that a server has repeated.
func Text(text string) string {
	before, after, found := strings.Cut(text, echo)
	if !found {
		return text
	}
	_, rest, more := strings.Cut(after, "\n")
	if !more {
		return before + "arguments"
	}
	return before + "arguments\n" + Text(rest)
}

// Error returns what a logger may have of an error: itself, unless Text changes what it says.
func Error(err error) error {
	if err == nil || !strings.Contains(err.Error(), echo) {
		return err
	}
	return redacted{err}
}

type redacted struct{ error }

func (r redacted) Error() string { return Text(r.error.Error()) }
func (r redacted) Unwrap() error { return r.error }
