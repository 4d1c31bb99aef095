package torture

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// What callbacks do that they should not.
const (
	panics    = "panics"
	exits     = "ends its goroutine"
	blocks    = "blocks"
	callsBack = "calls back"
)

var antics = []string{panics, exits, blocks, callsBack}

// callbacks are what the library calls.
var callbacks = []string{"OnQueued", "Observer", "Logger"}

// mischief is what callbacks panic with.
const mischief = "mischief"

// plays has a callback misbehave, after it has been noted.
func (w *worker) plays(callback, how string, op int, d time.Duration) {
	w.playing.Add(1)
	defer w.playing.Add(-1)
	w.journal.note(event{Kind: antic, Op: op, How: callback + " " + how, Limit: d.Nanoseconds()})
	switch how {
	case panics:
		panic(mischief)
	case exits:
		runtime.Goexit()
	case blocks:
		time.Sleep(d)
	case callsBack:
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		l := w.desks[rand.IntN(desks)].Load()
		_, _ = l.Inspect(ctx, "a") // what it says is nothing to us
		if lease, err := l.TryLock(ctx, "back-"+w.Process); err == nil {
			_ = lease.Err()
			_ = lease.Unlock(ctx) // the lease ends anyway
		}
	}
}

// length is for how long a callback misbehaves: longer than a lease, or not.
func length(how string) time.Duration {
	switch how {
	case blocks:
		return time.Duration(rand.Int64N(int64(3 * leaseTime)))
	case callsBack:
		return leaseTime
	}
	return 0
}

// sometimes has what the library tells of itself misbehave, so many times in a thousand.
func (w *worker) sometimes(callback string, permille int) {
	if !w.over() && rand.IntN(1000) < permille {
		how := antics[rand.IntN(len(antics))]
		w.plays(callback, how, 0, length(how))
	}
}

// Observe notes who waits, and what tells later why somebody was passed over.
func (w *worker) Observe(e fairlock.Event) {
	switch e.Kind {
	case fairlock.Reconnected:
		w.journal.note(event{Kind: again})
	case fairlock.PassedOver:
		w.journal.note(event{Kind: passed, Lock: e.Name, Owner: e.Owner})
	case fairlock.Queued:
		if op, its := e.Context.Value(number{}).(int); its {
			w.journal.note(event{Kind: queued, Op: op})
		}
	default:
	}
	w.sometimes("Observer", 3)
}

// careless is a slog.Handler that writes what it is told, and sometimes does something else before.
type careless struct {
	slog.Handler
	w *worker
}

// Handle writes a record.
func (c careless) Handle(ctx context.Context, r slog.Record) error {
	c.w.sometimes("Logger", 150)
	return c.Handler.Handle(ctx, r)
}

func (w *worker) logger() *slog.Logger {
	return slog.New(careless{slog.NewTextHandler(w.logs, nil), w})
}

func openLogs(o orders) (*os.File, error) {
	return os.OpenFile(o.Journal+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// onQueued is an option of the call op, which misbehaves.
func (h *hand) onQueued(op int, how string, d time.Duration) fairlock.LockOption {
	return fairlock.OnQueued(func(int) { h.plays("OnQueued", how, op, d) })
}

// safely runs a call and notes should a callback end it.
func (h *hand) safely(op int, f func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil && p != mischief {
			panic(p)
		}
		h.journal.note(event{Kind: broke, Op: op})
	}()
	f()
	returned = true
}

// apart runs a call in a goroutine of its own, which a callback may end.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// A process that stands still, or whose goroutines have to wait for a machine that has other things
// to do, is late with everything.
const (
	pulse   = 10 * time.Millisecond
	noPulse = 50 * time.Millisecond
)

// beats notes when this process stood still.
func (w *worker) beats(end <-chan struct{}) {
	for last := time.Now(); ; {
		select {
		case <-end:
			return
		case <-time.After(pulse):
		}
		now := time.Now()
		if now.Sub(last) > noPulse {
			w.journal.note(event{Kind: still, At: last.UnixNano(), Until: now.UnixNano()})
		}
		last = now
	}
}
