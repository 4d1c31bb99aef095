package locks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// Notices is a slog.Handler that prints the library's warnings as lines of fairlock's, each kind
// once, until it is muted.
type Notices struct {
	out io.Writer

	mu    sync.Mutex // guards all below
	shown map[string]bool
	muted bool
}

// NewNotices returns a Notices that prints to out.
func NewNotices(out io.Writer) *Notices { return &Notices{out: out, shown: make(map[string]bool)} }

// Mute ends the notices: after that stderr belongs to the command.
func (n *Notices) Mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.muted = true
}

// Enabled reports whether records of the level are printed.
func (n *Notices) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle prints a record: its message and then key=value.
func (n *Notices) Handle(_ context.Context, record slog.Record) error { return n.print(&record, nil) }

// print prints a record and what else is said with it. The same of another node is another kind.
func (n *Notices) print(record *slog.Record, with []slog.Attr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var line strings.Builder
	line.WriteString(record.Message)
	for _, a := range with {
		line.WriteString(" " + a.String())
	}
	if kind := line.String(); n.muted || n.shown[kind] {
		return nil
	}
	n.shown[line.String()] = true
	record.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	exit.Complain(n.out, errors.New(line.String()))
	return nil
}

// WithAttrs returns the Notices of a node, which says which it is.
func (n *Notices) WithAttrs(with []slog.Attr) slog.Handler { return &labelled{n, with} }

// WithGroup does nothing: the library does not use it.
func (n *Notices) WithGroup(string) slog.Handler { return n }

// labelled is a Notices that says something with each notice.
type labelled struct {
	*Notices
	with []slog.Attr
}

// Handle prints a record with that.
func (l *labelled) Handle(_ context.Context, record slog.Record) error {
	return l.print(&record, l.with)
}

// WithAttrs adds to what is said.
func (l *labelled) WithAttrs(with []slog.Attr) slog.Handler {
	return &labelled{l.Notices, slices.Concat(l.with, with)}
}
