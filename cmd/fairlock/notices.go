package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// notices is a slog.Handler that shows the library's warnings as lines of ours, each kind once, until it is hushed.
type notices struct {
	out io.Writer

	mu    sync.Mutex // guards all below
	shown map[string]bool
	muted bool
}

func newNotices(out io.Writer) *notices { return &notices{out: out, shown: make(map[string]bool)} }

// hush ends the notices: from now on stderr belongs to the command.
func (n *notices) hush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.muted = true
}

// Enabled reports whether the level is worth a line.
func (n *notices) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle shows a record: its message and then key=value.
func (n *notices) Handle(_ context.Context, record slog.Record) error {
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
	exit.Complain(n.out, errorText(line.String()))
	return nil
}

// WithAttrs is not used by the library.
func (n *notices) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup is not used by the library.
func (n *notices) WithGroup(string) slog.Handler { return n }

// errorText is an error that is nothing but its text.
type errorText string

func (e errorText) Error() string { return string(e) }
