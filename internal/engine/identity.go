package engine

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"time"
)

// Identity is how a nested call is recognised as the holder's own.
type Identity int

// The ways to recognise a nested call. Package fairlock says what each means.
const (
	ByContext Identity = iota
	ByGoroutine
)

// goroutine identifies a goroutine; 0 is none. Ids are never reused.
type goroutine int64

// current is the calling goroutine, read from the first line of its stack trace, or 0 if that line
// cannot be parsed.
func current() goroutine {
	var buffer [64]byte
	line := buffer[:runtime.Stack(buffer[:], false)]
	line, ok := bytes.CutPrefix(line, []byte("goroutine "))
	if !ok {
		return 0
	}
	digits, _, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return 0
	}
	id, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || id < 0 {
		return 0
	}
	return goroutine(id)
}

// carrying is a context that carries a turn. It carries a turn and not an identity: every call with
// the context shares the turn.
type carrying struct {
	context.Context
	turn *Turn
}

// leased is the context of a Lease.
type leased struct {
	context.Context
	of *share
}

// joint is the context of Leases.
type joint struct {
	context.Context
	values context.Context // which carry all their turns
}

// watching is a context that ends with of, or sooner.
type watching struct {
	context.Context
	of context.Context
}

// lasting returns the values for a Lease that is had with ctx: those of detached. If ctx is the
// context of another Lease, or of Leases, turns that are over are left out. Otherwise who has locks
// hand over hand, each with the context of the one before, would keep them all. c.mu must not be
// held.
func lasting(ctx context.Context) context.Context {
	var values context.Context
	switch o := ctx.(type) {
	case *leased:
		values, _ = living(&o.of.carrying)
	case *joint:
		values, _ = living(o.values)
	case *watching:
		values = lasting(o.of)
	default:
		values = detached(ctx)
	}
	return values
}

// living returns values with each turn once and without those that are over, and reports whether
// something was left out.
func living(values context.Context) (rest context.Context, some bool) {
	c, ours := values.(*carrying)
	if !ours {
		return values, false
	}
	rest, some = living(c.Context)
	switch {
	case !c.turn.isLive() || carries(rest, c.turn):
		return rest, true
	case some:
		return &carrying{rest, c.turn}, true
	}
	return c, false
}

// carries reports whether values have the turn: a nested call had it before.
func carries(values context.Context, t *Turn) bool {
	for c, ours := values.(*carrying); ours; c, ours = c.Context.(*carrying) {
		if c.turn == t {
			return true
		}
	}
	return false
}

// carried asks a context for the turn on one lock; anyTurn asks for one on any lock. Both ask for
// turns of one Core.
type (
	carried struct {
		core   *Core
		record string
	}
	anyTurn struct{ core *Core }
)

func (c *carrying) Value(key any) any {
	switch key := key.(type) {
	case carried:
		if h := c.turn.hold; h.core == key.core && h.Keys.Record() == key.record {
			return c.turn
		}
	case anyTurn:
		if c.turn.hold.core == key.core && c.turn.reenterable() {
			return c.turn
		}
	}
	return c.Context.Value(key)
}

// carriedBy returns the turn on the lock that a context carries, or nil. c.mu must not be held: the
// context may be the user's.
func (c *Core) carriedBy(ctx context.Context, record string) *Turn {
	t, _ := ctx.Value(carried{c, record}).(*Turn)
	return t
}

// find returns the trusted turn on the lock that the call shares, or nil. It looks for a turn of
// the owner that the call names. If the call names none, it looks for the turn that the context
// carries, then for one of the call's goroutine. c.mu must be held.
func (c *Core) find(carried *Turn, record string, r Request, now time.Time) *Turn {
	if r.Owner != "" {
		return c.first(record, now, func(t *Turn) bool { return t.Ticket.Owner == r.Owner })
	}
	if carried != nil && carried.live() && carried.hold.Live(now) {
		return carried
	}
	if len(c.bound) == 0 || c.turns[record] == nil {
		return nil
	}
	me := current()
	return c.first(record, now, func(t *Turn) bool { return t.boundTo(me) })
}

// first returns the latest turn on the lock that is trusted and matches, or nil. c.mu must be held.
func (c *Core) first(record string, now time.Time, match func(*Turn) bool) *Turn {
	for t := c.turns[record]; t != nil; t = t.next {
		if t.hold.Live(now) && match(t) {
			return t
		}
	}
	return nil
}
