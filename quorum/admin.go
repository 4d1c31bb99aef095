package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// ForceUnlock ends the present ownership of a lock at all nodes, whoever has it.
//
//	nil          a majority has ended it
//	ErrNotHeld   nobody had the lock
//
// The context of the old holder ends by it, maybe before the answers have come. Pass another one. A
// holder that no node can tell goes on until its trust ends; if nodes lose their data before that,
// it may win their votes back.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	if err := l.force(ctx, name, ""); err != nil {
		return &Error{Op: "force", Name: name, Err: err}
	}
	l.core.Settings.Logger.Warn("fairlock: a lock was forced", "lock", name)
	return nil
}

// Evict takes the waiter with this ID, as Inspect shows it, out of all lines. The waiting call
// returns ErrEvicted, and gives back what votes it has; of a process that does not hear of it, they
// end after a claim. A waiter that is granted the lock meanwhile keeps it.
//
//	nil             a majority has taken it out, or told it
//	ErrNotWaiting   no node that answers has such a waiter in line, or it has the lock by now
func (l *Locker) Evict(ctx context.Context, name, waiter string) error {
	if err := l.force(ctx, name, waiter); err != nil {
		return &Error{Op: "evict", Name: name, Err: err}
	}
	return nil
}

// force has a ticket leave all nodes: the holder's, or that of the waiter with this ID.
func (l *Locker) force(ctx context.Context, name, waiter string) error {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return err
	}
	views, _, err := l.views(ctx, keys)
	if err != nil {
		return err
	}
	var ticket lua.Ticket
	if waiter != "" {
		ticket, err = l.waiterOf(views, waiter)
	} else if ticket, err = lua.ParseTicket(l.holderOf(views)); err != nil {
		err = engine.ErrNotHeld
	}
	if err != nil {
		return err
	}
	by := byForce
	if waiter != "" {
		by = evicted
	}
	type ended struct {
		was lua.Was
		err error
	}
	done := make(chan ended, len(l.nodes))
	if e := l.core.Await(ctx, func(ctx context.Context) {
		l.round(func(i int) error {
			was, err := l.leaveFor(context.WithoutCancel(ctx), i, keys, ticket, rules.Late.Milliseconds(), by)
			done <- ended{was, err}
			return err
		})
	}); e != nil {
		return e
	}
	left, held := 0, 0
	for range len(done) {
		o := <-done
		if o.err != nil {
			err = errors.Join(err, o.err)
			continue
		}
		if left++; o.was == lua.Held {
			held++
		}
	}
	switch {
	case left < l.need():
		return errors.Join(fmt.Errorf("%d of %d nodes have ended it: %w", left, len(l.nodes), ballot.ErrUnreachable), err)
	case by == evicted && held >= l.need():
		return engine.ErrNotWaiting
	case by == evicted:
		return nil
	}
	l.core.ForcedHere(keys.Record(), func(h *engine.Hold) bool { return h.Ticket == ticket })
	return nil
}

// waiterOf is the ticket with this ID that stands in a line, and does not have the lock.
func (l *Locker) waiterOf(views []view, id string) (lua.Ticket, error) {
	holder := l.holderOf(views)
	for _, v := range views {
		for _, p := range v.line {
			if t, err := lua.ParseTicket(p.ticket); err == nil && t.ID() == id && p.ticket != holder {
				return t, nil
			}
		}
	}
	return lua.Ticket{}, engine.ErrNotWaiting
}
