package engine

import (
	"bytes"
	"context"
	"runtime"
	"strconv"

	"github.com/fairlock/locks/internal/rules"
)

// Identity is how a nested call is recognised as the holder's own.
type Identity int

const (
	// ByContext recognises a hold that the context carries, and the same goroutine inside Do.
	ByContext Identity = iota
	// ByGoroutine also ties a Lease of Lock or TryLock to the goroutine that asked for it, until
	// Detach. This is Redisson's thread identity. Do not use it where one goroutine acquires and
	// others work: two acquisitions of one name by a dispatcher would share the lock.
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

// carrying is a context that carries a hold. It carries a hold and not an identity: every call with
// the context shares the hold.
type carrying struct {
	context.Context
	hold *Hold
}

// carried asks a context for the hold of one lock; anyHold asks for the hold of any lock. Both ask
// for holds of one Core.
type (
	carried struct {
		core   *Core
		record string
	}
	anyHold struct{ core *Core }
)

func (c *carrying) Value(key any) any {
	switch key := key.(type) {
	case carried:
		if c.hold.core == key.core && c.hold.Keys.Record() == key.record {
			return c.hold
		}
	case anyHold:
		if c.hold.core == key.core && c.hold.live() {
			return c.hold
		}
	}
	return c.Context.Value(key)
}

// carriedBy returns the hold of the lock that a context carries, or nil. c.mu must not be held: the
// context may be the user's.
func (c *Core) carriedBy(ctx context.Context, record string) *Hold {
	h, _ := ctx.Value(carried{c, record}).(*Hold)
	return h
}

// find returns the live hold of the lock that the call shares, or nil. It looks for the hold of the
// owner that the call names. If the call names none, it looks for the hold that the context
// carries, then for one of the call's goroutine. c.mu must be held.
func (c *Core) find(carried *Hold, record string, r Request) *Hold {
	if r.Owner != "" {
		if h := c.holds[record]; h != nil && h.Ticket.Owner == r.Owner {
			return h
		}
		return nil
	}
	if carried != nil && carried.State == rules.Held {
		return carried
	}
	if h := c.holds[record]; h != nil && len(c.bound) > 0 && h.boundTo(current()) {
		return h
	}
	return nil
}
