package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// ForceUnlock ends the present ownership of a lock at all nodes, whoever has it.
//
//	nil          a majority has ended it
//	ErrNotHeld   nobody had the lock, as far as the nodes that answer know
//
// The context of the old holder ends by it, maybe before the answers have come. Pass another one. A
// holder that no node can tell goes on until its trust ends; if nodes lose their data before that,
// it may win their votes back. With nodes away, a holder of before may be taken for the present one,
// of which no node knows in its first second: that one stays.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	return l.core.ReportForce(name, l.force(ctx, name))
}

// force has the holder's ticket leave all nodes.
func (l *Locker) force(ctx context.Context, name string) error {
	keys, views, err := l.seen(ctx, name)
	if err != nil {
		return err
	}
	ticket, err := lua.ParseTicket(l.holderOf(views))
	if err != nil {
		return engine.ErrNotHeld
	}
	if _, err := l.takes(ctx, keys, ticket, byForce); err != nil {
		return err
	}
	l.core.ForcedHere(keys.Record(), func(h *engine.Hold) bool { return h.Ticket == ticket })
	return nil
}

// Evict takes the waiter with this ID, as Inspect shows it, out of all lines. The waiting call
// returns ErrEvicted. Evict takes no vote: a waiter that has some is told, and gives them back.
// Evict asks again until it has, for 5 s. A waiter that is granted the lock meanwhile keeps it.
//
//	nil             the waiter is in no line any more, or a majority has taken it out
//	ErrNotWaiting   no node that answers has such a waiter in line, or it has the lock by now
//	ErrNotShown     it is not among the first 500 in line, and nodes have more: Evict sees no others
//	other           also if its process does not answer, and keeps its votes; they end after a claim
func (l *Locker) Evict(ctx context.Context, name, waiter string) error {
	if err := l.evict(ctx, name, waiter); err != nil {
		return &Error{Op: "evict", Name: name, Err: err}
	}
	return nil
}

// askedAgain is how soon Evict looks again for a waiter that was told to give its votes back.
const askedAgain = 20 * time.Millisecond

func (l *Locker) evict(ctx context.Context, name, waiter string) error {
	began := time.Now()
	for told := false; ; told = true {
		keys, views, err := l.seen(ctx, name)
		if err != nil {
			return err
		}
		ticket, has, waits := l.waiterOf(views, waiter, told)
		switch {
		case has:
			return engine.ErrNotWaiting
		case !waits && !told:
			return noWaiter(views)
		case !waits:
			return nil
		case told && time.Since(began) > lua.MostKept:
			return errors.New("the waiter was told, and has not given its votes back")
		}
		out, err := l.takes(ctx, keys, ticket, evicted)
		if err != nil || out >= l.need() {
			return err
		}
		select { // the waiter may have a majority, or get one
		case <-ctx.Done():
			return engine.EndOf(ctx)
		case <-time.After(askedAgain):
		}
	}
}

// noWaiter is why there is nobody to evict: nobody is in line, as far as all of the line is seen.
func noWaiter(views []view) error {
	for _, v := range views {
		if v.length > len(v.line) {
			return fmt.Errorf("%w: the first %d of %d", ErrNotShown, len(v.line), v.length)
		}
	}
	return engine.ErrNotWaiting
}

// waiterOf is the ticket with this ID that stands in a line. has says that the ticket has the lock.
// Of one that was told to give its votes back, a node has to know that.
func (l *Locker) waiterOf(views []view, id string, told bool) (ticket lua.Ticket, has, waits bool) {
	holder := l.holderOf(views)
	knows := func(v view) bool { return v.holder == holder && v.decided }
	if t, err := lua.ParseTicket(holder); err == nil && t.ID() == id {
		has = !told || slices.ContainsFunc(views, knows)
		return t, has, !has
	}
	for _, v := range views {
		for _, p := range v.line {
			if t, err := lua.ParseTicket(p.ticket); err == nil && t.ID() == id {
				return t, false, true
			}
		}
	}
	return ticket, false, false
}

// seen is what a majority of nodes shows of a lock.
func (l *Locker) seen(ctx context.Context, name string) (lua.Keys, []view, error) {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return keys, nil, err
	}
	views, _, err := l.views(ctx, keys)
	return keys, views, err
}

// takes has a ticket leave all nodes. It is an error if no majority answers. out is how many nodes
// have nothing of the ticket now. A holder that is cut off has no news of a force while it trusts
// the lock, so the mark lasts for the longest lease.
func (l *Locker) takes(ctx context.Context, keys lua.Keys, ticket lua.Ticket, by taking) (out int, err error) {
	type ended struct {
		node int
		was  lua.Was
		err  error
	}
	late := rules.Late
	if by == byForce {
		late = max(late, l.most)
	}
	done := make(chan ended, len(l.nodes))
	if e := l.core.Await(ctx, func(ctx context.Context) {
		l.round(hush, func(i int) error {
			was, err := l.leaveFor(context.WithoutCancel(ctx), i, keys, ticket, late.Milliseconds(), by)
			done <- ended{i, was, err}
			return err
		})
	}); e != nil {
		return 0, e
	}
	answered, failed := 0, l.reasons()
	for range len(done) {
		e := <-done
		if failed[e.node] = e.err; e.err != nil {
			continue
		}
		if answered++; by == byForce || e.was != lua.Held {
			out++
		}
	}
	switch {
	case answered >= l.need():
		return out, nil
	case answered == 0 && !slices.ContainsFunc(failed, mayHaveDone):
		return out, l.tooFew(answered, "have ended it", failed)
	default:
		return out, errors.Join(fmt.Errorf("%d of %d nodes have ended it: %w", answered, len(l.nodes), rules.ErrUnreachable), byNode(failed))
	}
}

// mayHaveDone reports whether a request that has failed so, or not yet, may be executed.
func mayHaveDone(err error) bool { return err == nil || lua.Unanswered(err) }
