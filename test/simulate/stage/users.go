package stage

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlock/locks/internal/engine"
)

// Teller is an Observer and the Handler of a logger. Both are user code: it is called with what it
// is told.
type Teller func(what string)

// Observe implements engine.Observer.
func (t Teller) Observe(e engine.Event) { t("an Observer of " + e.Kind.String()) }

// Enabled implements slog.Handler, as do the methods below.
func (t Teller) Enabled(context.Context, slog.Level) bool { return true }

// Handle makes no difference between levels.
func (t Teller) Handle(_ context.Context, r slog.Record) error {
	t("a logger of " + r.Message)
	return nil
}

// WithAttrs drops the attributes.
func (t Teller) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup drops the group.
func (t Teller) WithGroup(string) slog.Handler { return t }

// asking is a context of the user's own type, which calls a function first, whatever it is asked.
type asking struct {
	context.Context
	done  <-chan struct{}
	asked func(what string)
}

func (a asking) Deadline() (time.Time, bool) { a.asked("Deadline"); return a.Context.Deadline() }
func (a asking) Done() <-chan struct{}       { a.asked("Done"); return a.done }
func (a asking) Err() error                  { a.asked("Err"); return a.Context.Err() }

// Value tells the user's own keys from that of package context, an *int, which asks so what ends a.
func (a asking) Value(key any) any {
	if _, canceler := key.(*int); canceler {
		a.asked("canceler")
	} else {
		a.asked("Value")
	}
	return a.Context.Value(key)
}

// Untimely returns a context of the user's own type that does something once, as it is asked in a
// user's goroutine that survives. Which question that is, is drawn: most often one of the first. A
// third of these contexts have a channel of their own: what the standard library derives from such
// a context asks it in a goroutine of the standard library's. elsewhere is called if it is asked
// there, or in a goroutine of the library's: a panic there would end the process. Values may be
// asked anywhere, for hooks of the client may do that.
func Untimely(ctx context.Context, r *rand.Rand, do func(), elsewhere func(what string)) context.Context {
	left := new(atomic.Int32)
	left.Store(1 + r.Int32N(1<<r.IntN(6)))
	done := ctx.Done()
	if r.IntN(3) == 0 && done != nil {
		own := make(chan struct{})
		context.AfterFunc(ctx, func() { close(own) })
		done = own
	}
	return asking{ctx, done, func(what string) {
		owner := Whose()
		if (owner == Others || owner == Librarys) && what != "Value" {
			elsewhere(what)
		}
		if left.Add(-1) != 0 {
			return
		}
		if owner != Users {
			left.Store(1) // the next one
			return
		}
		do()
	}}
}

// errUsers is what the user's own code panics with.
var errUsers = errors.New("the user's own panic")

// Crash panics or ends the goroutine, as the user's code does, once it has told which.
func Crash(who string, panics bool, tell func(kind string)) {
	if panics {
		tell(who + " panics")
		panic(errUsers)
	}
	tell(who + " ends its goroutine")
	runtime.Goexit()
}

// Survives runs the user's code in a goroutine of its own, in which that code may [Crash]. It
// reports whether the code has returned.
func Survives(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil && r != any(errUsers) {
				panic(r)
			}
		}()
		f()
		returned = true
	}()
	<-done
	return returned
}

// Owner is whose a goroutine is.
type Owner int

// The owners of goroutines.
const (
	Others   Owner = iota // the standard library's, the client's or the test's
	Users                 // a user's, which survives
	Callback              // what a callback keeps: a method named callsBack calls the library in it
	Librarys              // the library's own
)

// Whose reports whose this goroutine is.
func Whose() Owner {
	var pc [128]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc[:])])
	owner := Others
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".callsBack"):
			return Callback
		case strings.Contains(f.Function, "stage.Survives"):
			owner = Users
		case owner == Others && (strings.Contains(f.Function, "engine.(*Tasks).Go") ||
			strings.Contains(f.Function, "engine.ForEach")):
			owner = Librarys
		}
		if !more {
			return owner
		}
	}
}
