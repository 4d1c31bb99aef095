package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/internal/redact"
)

const (
	mostUntold = 10_000      // how many reports wait; more are counted and dropped
	toldWithin = time.Second // how long Close waits for them
)

// reporter tells a Locker's Logger and Observer what happened, in order, from one goroutine. The
// goroutine lives as long as there is something to tell. Logger and Observer are the user's code:
// if they block, panic or call back into the Locker, only what is told after that is held up.
type reporter struct {
	logger   *slog.Logger
	observer Observer     // may be nil
	teller   atomic.Int64 // the goroutine that tells; 0: there is none

	mu      sync.Mutex // guards what follows; no code of the user's is called under it
	untold  []func()
	dropped int
	idle    chan struct{} // closed when nothing is left to tell; nil: nothing is left
}

// tell queues f to be called. It never blocks, and may be called with any mutex held.
func (r *reporter) tell(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue(f)
}

// queue is tell. r.mu must be held.
func (r *reporter) queue(f func()) {
	if len(r.untold) == mostUntold {
		r.dropped++
		return
	}
	r.untold = append(r.untold, f)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.run()
	}
}

// run tells what there is to tell. If the user's code ends this goroutine, another one goes on.
func (r *reporter) run() {
	me, all := int64(current()), false
	r.teller.Store(me)
	defer func() {
		r.teller.CompareAndSwap(me, 0)
		if !all {
			go r.run()
		}
	}()
	for f := r.next(); f != nil; f = r.next() {
		r.guarded(f)
	}
	all = true
}

// next takes out what is told next; nil: nothing is left.
func (r *reporter) next() (f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.untold) > 0:
		f, r.untold = r.untold[0], r.untold[1:]
	case r.dropped > 0:
		n := r.dropped
		r.dropped = 0
		f = func() {
			r.logger.Warn("fairlock: the Logger or the Observer is too slow", "untold", n)
		}
	default:
		r.untold = nil
		close(r.idle)
		r.idle = nil
	}
	return f
}

// guarded calls the user's code and recovers its panics: a panic there must not end a process that
// holds locks.
func (r *reporter) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			defer func() { _ = recover() }() // the Logger itself may panic
			r.logger.Error("fairlock: the Logger or the Observer panicked", "panic", fmt.Sprint(p), "stack", stack)
		}
	}()
	f()
}

// observe tells the observer, if there is one.
func (r *reporter) observe(e Event) {
	if r.observer == nil {
		return
	}
	e.Err = redact.Error(e.Err)
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Now() // under the mutex: what is told is in the order of its times
	r.queue(func() { r.observer.Observe(e) })
}

// drain returns when all is told, after a second at most. It returns at once if the user's code
// calls it from the telling goroutine.
func (r *reporter) drain() {
	if me := current(); me != 0 && r.teller.Load() == int64(me) {
		return
	}
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(toldWithin)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// aside is a slog.Handler that writes through a reporter, so that logging never waits. handler is
// the user's, and so is what it calls: it is called as the lines are told.
type aside struct {
	handler func() slog.Handler
	*reporter
}

// Enabled reports that a line may be wanted. The user's handler is asked when the line's turn
// comes.
func (a aside) Enabled(context.Context, slog.Level) bool { return true }

// Handle takes a line to be written.
func (a aside) Handle(_ context.Context, line slog.Record) error {
	line = line.Clone()
	a.tell(func() {
		if ctx, handler := context.Background(), a.handler(); handler.Enabled(ctx, line.Level) {
			_ = handler.Handle(ctx, line)
		}
	})
	return nil
}

func (a aside) WithAttrs(attrs []slog.Attr) slog.Handler {
	return aside{sync.OnceValue(func() slog.Handler { return a.handler().WithAttrs(attrs) }), a.reporter}
}

func (a aside) WithGroup(name string) slog.Handler {
	return aside{sync.OnceValue(func() slog.Handler { return a.handler().WithGroup(name) }), a.reporter}
}

// reports puts a reporter between the Locker and the settings' Logger and Observer.
func (s *Settings) reports() {
	s.reporter = &reporter{logger: s.Logger, observer: s.Observer}
	s.Logger = slog.New(aside{sync.OnceValue(s.Logger.Handler), s.reporter})
}
