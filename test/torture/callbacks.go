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

// These are the ways in which callbacks misbehave.
const (
	panics    = "panics"
	exits     = "ends its goroutine"
	blocks    = "blocks"
	callsBack = "calls back"
)

var antics = []string{panics, exits, blocks, callsBack}

// callbacks are the kinds of user code that the library calls.
var callbacks = []string{"OnQueued", "Observer", "Logger"}

// mischief is the value with which callbacks panic.
const mischief = "mischief"

// plays notes that a callback misbehaves, and then does so.
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
		_, _ = l.Inspect(ctx, "a") // the answer does not matter here
		if lease, err := l.TryLock(ctx, "back-"+w.Process); err == nil {
			_ = lease.Err()
			_ = lease.Unlock(ctx) // the lease ends anyway
		}
	}
}

// length returns for how long a callback misbehaves: longer than a lease, or shorter.
func length(how string) time.Duration {
	switch how {
	case blocks:
		return time.Duration(rand.Int64N(int64(3 * leaseTime)))
	case callsBack:
		return leaseTime
	}
	return 0
}

// sometimes has an Observer or a logger misbehave, in so many of a thousand calls.
func (w *worker) sometimes(callback string, permille int) {
	if !w.over() && rand.IntN(1000) < permille {
		how := antics[rand.IntN(len(antics))]
		w.plays(callback, how, 0, length(how))
	}
}

// Observe notes what the judges need later: which calls wait, and why a waiter was passed over.
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

// careless is a slog.Handler that writes its records, and sometimes misbehaves first.
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

// onQueued returns an OnQueued option for the call op, which misbehaves.
func (h *hand) onQueued(op int, how string, d time.Duration) fairlock.LockOption {
	return fairlock.OnQueued(func(int) { h.plays("OnQueued", how, op, d) })
}

// safely runs a call, and notes if a callback ends it.
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

// A process that stood still is late with everything. So is a process whose goroutines have to wait
// because the machine is busy.
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
