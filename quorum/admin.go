package quorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// inspected is how many places of a line are shown.
const inspected = 500

// view is what one node says of a lock.
type view struct {
	holder  string // a ticket; empty: nobody has the vote
	token   int64
	since   lua.Micros
	now     lua.Micros
	depth   int
	decided bool
	left    int64
	largest int64
	line    []place
}

type place struct {
	ticket string
	at     lua.Micros
}

// Inspect shows a lock as a majority of nodes sees it, in one round trip. A lock whose votes are
// split is shown as free, with all who ask for it in line. The line is that of the node that shows
// the most; it is shown up to 500 places.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	views, err := l.views(ctx, keys)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	return l.state(name, views), nil
}

// views asks all nodes. It is an error if no majority answers.
func (l *Locker) views(ctx context.Context, keys lua.Keys) (views []view, err error) {
	type seen struct {
		view
		err error
	}
	answers := make(chan seen, len(l.nodes))
	if e := l.core.Await(ctx, func() {
		l.round(func(i int) {
			reply, err := l.nodes[i].run(context.WithoutCancel(ctx), inspectScript,
				[]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token()}, 0, inspected-1)
			var v view
			if err == nil {
				v, err = decodeView(reply)
			}
			answers <- seen{v, err}
		})
	}); e != nil {
		return nil, e
	}
	for range len(answers) {
		if a := <-answers; a.err == nil {
			views = append(views, a.view)
		} else {
			err = errors.Join(err, a.err)
		}
	}
	if len(views) < l.need() {
		return nil, errors.Join(fmt.Errorf("%d of %d nodes answered: %w", len(views), len(l.nodes), errUnreachable), err)
	}
	return views, nil
}

func decodeView(reply []any) (v view, err error) {
	if len(reply) != 10 {
		return v, wrongReply("inspect", reply)
	}
	n := numbers(reply)
	line, ok := reply[9].([]any)
	if len(n) != 8 || !ok || len(line)%2 != 0 {
		return v, wrongReply("inspect", reply)
	}
	v.holder, _ = reply[2].(string)
	v.now, v.left, v.token, v.since = lua.Micros(n[0]), n[1], n[2], lua.Micros(n[3])
	v.depth, v.decided, v.largest = int(n[4]), n[5] == 1, n[7]
	for i := 0; i < len(line); i += 2 {
		ticket, _ := line[i].(string)
		score, _ := line[i+1].(string)
		at, _ := strconv.ParseFloat(score, 64)
		v.line = append(v.line, place{ticket, lua.Micros(at)})
	}
	return v, nil
}

// holderOf is the ticket that a majority of the votes is for; empty: there is none.
func (l *Locker) holderOf(views []view) (ticket string) {
	votes := make(map[string]int)
	for _, v := range views {
		if votes[v.holder]++; v.holder != "" && votes[v.holder] >= l.need() {
			ticket = v.holder
		}
	}
	return ticket
}

func (l *Locker) state(name string, views []view) *State {
	s := &State{Name: name}
	holder := l.holderOf(views)
	for _, v := range views {
		s.Token = max(s.Token, v.largest)
		if v.holder == holder && holder != "" {
			t, err := lua.ParseTicket(holder)
			s.Damaged = errors.Join(s.Damaged, err)
			if s.Holder == nil {
				s.Holder = &Holder{Owner: t.Identity(), Note: t.Note, Holds: 1, Since: v.since.Time(), Held: v.now.Sub(v.since)}
			}
			s.Holder.Token, s.Holder.Depth = max(s.Holder.Token, v.token), max(s.Holder.Depth, v.depth)
			s.Holder.Remaining = max(s.Holder.Remaining, ms(v.left))
		}
		waiters := slices.DeleteFunc(slices.Clone(v.line), func(p place) bool { return p.ticket == holder })
		if len(waiters) > len(s.Waiters) {
			s.Waiters = nil
			for _, p := range waiters {
				t, err := lua.ParseTicket(p.ticket)
				s.Damaged = errors.Join(s.Damaged, err)
				s.Waiters = append(s.Waiters, Waiter{ID: t.ID(), Owner: t.Identity(), Note: t.Note, Since: p.at.Time(), Waited: v.now.Sub(p.at)})
			}
		}
	}
	s.Waiting = len(s.Waiters)
	return s
}

// List goes through all locks under the Locker's prefix that are held or waited for, in no order. It
// takes a SCAN of each node, and a round trip for each lock.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		names, err := l.names(ctx)
		if err != nil {
			yield(nil, &Error{Op: "list", Name: l.prefix, Err: err})
			return
		}
		for _, name := range names {
			s, err := l.Inspect(ctx, name)
			if err != nil {
				yield(nil, err)
				return
			}
			if (s.Holder != nil || s.Waiting > 0) && !yield(s, nil) {
				return
			}
		}
	}
}

// names are those of the locks that any of a majority of nodes knows.
func (l *Locker) names(ctx context.Context) (names []string, err error) {
	if _, err := l.core.Ready(ctx, "any"); err != nil {
		return nil, err
	}
	known, answered := make(map[string]bool), 0
	for _, n := range l.nodes {
		if n.away() {
			continue
		}
		var e error
		if ended := l.core.Await(ctx, func() {
			scan := n.rdb.Scan(ctx, 0, lua.ScanPattern(l.prefix), 100).Iterator()
			for scan.Next(ctx) {
				if name, _, err := lua.Named(l.prefix, scan.Val()); err == nil && !known[name] {
					known[name], names = true, append(names, name)
				}
			}
			e = scan.Err()
		}); ended != nil {
			return nil, ended
		}
		if err = errors.Join(err, e); e == nil {
			answered++
		}
	}
	if answered >= l.need() {
		return names, nil
	}
	return nil, errors.Join(fmt.Errorf("%d of %d nodes answered: %w", answered, len(l.nodes), errUnreachable), err)
}

// ForceUnlock ends the present ownership of a lock at all nodes, whoever has it.
//
//	nil          a majority has ended it
//	ErrNotHeld   nobody had the lock
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	if err := l.force(ctx, name, ""); err != nil {
		return &Error{Op: "force", Name: name, Err: err}
	}
	l.core.Settings.Logger.Warn("fairlock: a lock was forced", "lock", name)
	return nil
}

// Evict takes the waiter with this ID, as Inspect shows it, out of all lines. It is ErrNotHeld if no
// node knows it.
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
	views, err := l.views(ctx, keys)
	if err != nil {
		return err
	}
	ticket, err := lua.ParseTicket(l.holderOf(views))
	if waiter != "" {
		for _, v := range views {
			for _, p := range v.line {
				if t, e := lua.ParseTicket(p.ticket); e == nil && t.ID() == waiter && p.ticket != l.holderOf(views) {
					ticket, err = t, nil
				}
			}
		}
	}
	if err != nil || waiter != "" && ticket.ID() != waiter {
		return engine.ErrNotHeld
	}
	done := make(chan error, len(l.nodes))
	if e := l.core.Await(ctx, func() {
		l.round(func(i int) {
			_, err := l.leaveFor(context.WithoutCancel(ctx), i, keys, ticket, 0, rules.Late.Milliseconds(), true)
			done <- err
		})
	}); e != nil {
		return e
	}
	left := 0
	for range len(done) {
		if e := <-done; e == nil {
			left++
		} else {
			err = errors.Join(err, e)
		}
	}
	if left < l.need() {
		return errors.Join(fmt.Errorf("%d of %d nodes have ended it: %w", left, len(l.nodes), errUnreachable), err)
	}
	l.core.ForcedHere(keys.Record(), func(h *engine.Hold) bool { return h.Ticket == ticket })
	return nil
}
