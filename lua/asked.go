package lua

import (
	"context"
	"time"
)

// asked is a caller's context that was asked beforehand. It may be the user's: if that ended the
// goroutine amid a request, go-redis would put back a connection on which the answer is still to
// come, and whoever has it next would take that answer for its own.
type asked struct {
	context.Context // for values
	done            <-chan struct{}
	at              time.Time
	ends            bool // at that time
	canceler        any  // what package context knows of its end; nil: nothing
}

func askedOf(ctx context.Context) asked {
	a := asked{Context: ctx, done: ctx.Done()}
	a.at, a.ends = ctx.Deadline()
	if a.done != nil {
		a.canceler = ctx.Value(cancelerKey)
	} else {
		a.ends = false // it never ends: such as one that was detached by hand, and keeps its Deadline
	}
	return a
}

// cancelerKey is the key under which package context finds what ends a context. It asks for that
// also in goroutines of its own.
var cancelerKey = func() any {
	var c catches
	_ = context.Cause(&c)
	return c.key
}()

// catches is a context that has ended, and keeps the key that it is asked for.
type catches struct{ key any }

func (*catches) Deadline() (at time.Time, ends bool) { return at, false }
func (*catches) Done() <-chan struct{}               { return nil }
func (*catches) Err() error                          { return context.Canceled }
func (c *catches) Value(key any) any                 { c.key = key; return nil }

// Asked returns a context that ends with ctx and has its values. Of ctx, which may be the user's,
// nothing but values is asked from now on, and none of those that package context asks for.
func Asked(ctx context.Context) context.Context {
	a := askedOf(ctx)
	return &a
}

// Over reports whether ctx has ended, or is about to: its timer may be late. No mutex may be held:
// it may be the user's.
func Over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

func (a *asked) Deadline() (time.Time, bool) { return a.at, a.ends }
func (a *asked) Done() <-chan struct{}       { return a.done }

// Value is that of the caller's context, which was asked for its canceler beforehand.
func (a *asked) Value(key any) any {
	if key == cancelerKey {
		return a.canceler
	}
	return a.Context.Value(key)
}

// Err may be another error than that of the caller's context, which its caller knows.
func (a *asked) Err() error {
	select {
	case <-a.done:
	default:
		return nil
	}
	if a.ends && !time.Now().Before(a.at) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// until is a context with a deadline that is for reads and writes alone: it does not end then.
type until struct {
	context.Context
	at time.Time
}

// Deadline is a fixed time.
func (u until) Deadline() (time.Time, bool) { return u.at, true }

// timeless is a context without its deadline.
type timeless struct{ context.Context }

func (timeless) Deadline() (at time.Time, ends bool) { return at, false }

// Bounded returns Asked of ctx with an end at that time, for that cause. context.WithDeadlineCause
// would set no timer if the deadline of ctx comes first, and a context of the user's own type may
// be done long after its deadline, or never.
func Bounded(
	ctx context.Context, at time.Time, cause error,
) (bounded context.Context, cancel context.CancelFunc) {
	a := askedOf(ctx)
	if !a.ends || !a.at.Before(at) {
		return context.WithDeadlineCause(&a, at, cause)
	}
	bounded, cancel = context.WithDeadlineCause(timeless{&a}, at, cause)
	return until{bounded, a.at}, cancel
}

// OwnContext returns a context with the values and the deadline of ctx that ends by end alone. For
// another goroutine: ctx may be the user's, and panic where nobody recovers. The deadline is for
// reads and writes, without a timer, which could go off before that of ctx.
func OwnContext(ctx context.Context) (own context.Context, end context.CancelFunc) {
	own, end = context.WithCancel(context.WithoutCancel(ctx))
	if at, ok := ctx.Deadline(); ok {
		own = until{own, at}
	}
	return own, end
}
