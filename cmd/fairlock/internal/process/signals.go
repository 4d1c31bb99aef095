package process

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// Ending are the signals that end fairlock, or its waiting for the lock.
var Ending = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// Ends reports whether s is one of them.
func Ends(s os.Signal) bool { return slices.Contains(Ending, s) }

// Catch has these signals sent to the channel, but for those that we were started to ignore (nohup,
// a shell's background job). The function ends that.
func Catch(these ...os.Signal) (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 64) // a window that is being resized tells that many times
	for _, each := range these {
		if !signal.Ignored(each) {
			signal.Notify(signals, each)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// Number is n in 128+n.
func Number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// UntilSignal is a context that ends with the first signal, and the exit.Error for that one, if
// there was any.
func UntilSignal() (ctx context.Context, got func() error, release func()) {
	signals, stop := Catch(Ending...)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(&exit.Error{Code: exit.Signal + Number(s)})
		case <-done:
		}
	}()
	return ctx, func() error { return context.Cause(ctx) }, func() { stop(); close(done) }
}
