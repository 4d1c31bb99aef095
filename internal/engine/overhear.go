package engine

import (
	"context"
	"iter"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// Overheard is something that the server told the clients of a lock. The Kind decides which fields
// are set:
//
//	Acquired     a waiter (ID, Owner, Note) was given the lock with Token, for Remaining
//	             unless it is renewed
//	Lost         the ownership with Token was ended by force; ID, Owner and Note are of the
//	             call that had it
//	GaveUp       a waiter (ID, Owner, Note) was evicted
//	Released     a plain lock was given back or forced
//	Reconnected  none, not even Name: from here on everything is heard. Comes first, and again
//	             after each failure
type Overheard struct {
	Kind      Kind
	Name      string
	ID        string // as in Waiter
	Owner     string
	Note      string
	Token     int64
	Remaining time.Duration
}

// Overhear goes through what the server tells the clients of locks, as it happens. It covers the
// locks named, or all locks under the prefix if none is named. An error ends it, as do ctx and
// Close.
func (c *Core) Overhear(ctx context.Context, names ...string) iter.Seq2[Overheard, error] {
	return func(yield func(Overheard, error) bool) {
		if err := c.overhear(ctx, names, func(o Overheard) bool { return yield(o, nil) }); err != nil {
			yield(Overheard{}, &Error{"overhear", c.Settings.Prefix, err})
		}
	}
}

func (c *Core) overhear(ctx context.Context, names []string, yield func(Overheard) bool) error {
	if _, err := c.Ready(ctx, "any"); err != nil {
		return err
	}
	wanted := make(map[lua.Keys]string, len(names)) // the caller's names
	for _, name := range names {
		keys, err := c.keys(name)
		if err != nil {
			return err
		}
		wanted[keys] = name
	}
	for said, err := range c.Hub.Overhear(ctx, lua.Patterns(c.Settings.Prefix)...) {
		switch {
		case ctx.Err() != nil:
			return EndOf(ctx)
		case c.isClosed():
			return ErrClosed
		case err != nil:
			return err
		}
		if o, ok := c.overheard(said, wanted); ok && !yield(o) {
			return nil
		}
	}
	return nil
}

// overheard puts what was said in a user's words. ok is false if the lock is not wanted; an empty
// wanted wants all.
func (c *Core) overheard(said pubsub.Said, wanted map[lua.Keys]string) (o Overheard, ok bool) {
	if said == (pubsub.Said{}) {
		return Overheard{Kind: Reconnected}, true
	}
	record, free := lua.FreedOf(c.Settings.Prefix, said.Channel)
	if free {
		o.Kind = Released
	} else {
		m, err := lua.ParseMessage(said.Payload)
		if err != nil || m.News == lua.Recalls {
			return o, false
		}
		record = m.Record
		o = Overheard{ID: m.Ticket.ID(), Owner: m.Ticket.Identity(), Note: m.Ticket.Note, Token: m.Token}
		switch m.News {
		case lua.Forces:
			o.Kind = Lost
		case lua.Evicts:
			o.Kind = GaveUp
		default:
			o.Kind, o.Remaining = Acquired, m.Claim
		}
	}
	name, keys, err := lua.Named(c.Settings.Prefix, record)
	if o.Name = name; len(wanted) > 0 {
		o.Name, ok = wanted[keys]
		return o, ok
	}
	return o, err == nil
}
