package process

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// Ending has the signals that end fairlock, or its waiting for the lock.
var Ending = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// Ends reports whether s is in Ending.
func Ends(s os.Signal) bool { return slices.Contains(Ending, s) }

// Catch sends these signals to the channel, except SIGHUP and SIGINT if fairlock was started to
// ignore them (nohup, a script's background job): of others the Go runtime does not keep that. The
// returned function ends it.
func Catch(these ...os.Signal) (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 64) // a window that is being resized sends that many signals
	for _, each := range these {
		if !signal.Ignored(each) {
			signal.Notify(signals, each)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// DropBrokenPipes has writes to a standard stream whose reader has gone away fail, from now on.
// Otherwise fairlock would die of SIGPIPE.
func DropBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Number returns n of 128+n.
func Number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// UntilSignal returns a context that ends with the first signal. The function got returns the
// exit.Error for that signal, or nil if there was none. A second signal ends the process as if none
// were caught: it may stand in a write that nobody reads, and see no context.
func UntilSignal() (ctx context.Context, got func() error, release func()) {
	signals, stop := Catch(Ending...)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			stop()
			cancel(&exit.Error{Code: exit.Signal + Number(s)})
		case <-done:
		}
	}()
	return ctx, func() error { return context.Cause(ctx) }, func() { stop(); close(done) }
}
