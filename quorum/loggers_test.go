package quorum

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/engine"
)

// handler is a Logger's, and calls a function with each line.
type handler func(slog.Record)

func (h handler) Enabled(context.Context, slog.Level) bool      { return true }
func (h handler) Handle(_ context.Context, r slog.Record) error { h(r); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h handler) WithGroup(string) slog.Handler                 { return h }

// soon fails unless something ends before long.
func (w *world) soon(what string, f func()) {
	w.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		w.Fatalf("%s does not end", what)
	}
}

func TestALoggerThatBlocksHoldsUpNobody(t *testing.T) {
	w := realNodes(t, 3)
	called, goes := make(chan struct{}), make(chan struct{})
	var once sync.Once
	l := w.locker(WithLogger(slog.New(handler(func(slog.Record) {
		once.Do(func() { close(called) })
		<-goes
	}))))
	defer close(goes)
	w.unlock(w.has(l, "x"))
	w.servers[2].Kill()
	w.until("something is logged", func() bool {
		w.unlock(w.has(l, "x"))
		return engine.IsClosed(called)
	})
	w.servers[2].Restart()
	for range 3 {
		w.unlock(w.has(l, "x"))
	}
	w.soon("Close", func() { w.must(l.Close()) })
}

func TestALoggerMayCloseTheLocker(t *testing.T) {
	w := realNodes(t, 3)
	var l *Locker
	over := make(chan struct{})
	var once sync.Once
	l = w.locker(WithLogger(slog.New(handler(func(slog.Record) {
		once.Do(func() {
			w.must(l.Close())
			close(over)
		})
	}))))
	w.unlock(w.has(l, "x"))
	w.servers[2].Kill()
	w.until("the Logger has closed the Locker", func() bool {
		if lease, err := l.Lock(t.Context(), "x"); err == nil {
			_ = lease.Unlock(context.Background())
		}
		return engine.IsClosed(over)
	})
}
