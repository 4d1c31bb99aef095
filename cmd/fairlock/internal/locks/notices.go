package locks

import (
	"context"
	"errors"
	"io"
	"log/slog"
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
func (n *Notices) Handle(_ context.Context, record slog.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.muted || n.shown[record.Message] {
		return nil
	}
	n.shown[record.Message] = true
	var line strings.Builder
	line.WriteString(record.Message)
	record.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	exit.Complain(n.out, errors.New(line.String()))
	return nil
}

// WithAttrs does nothing: the library does not use it.
func (n *Notices) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup does nothing: the library does not use it.
func (n *Notices) WithGroup(string) slog.Handler { return n }
