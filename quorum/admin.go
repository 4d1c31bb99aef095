package quorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// inspected is how many places of a line are shown.
const inspected = 500

// view is what one node says of a lock.
type view struct {
	node    int
	holder  string // a ticket; empty: nobody has the vote
	token   int64
	since   lua.Micros
	now     lua.Micros
	depth   int
	decided bool
	left    int64
	largest int64
	length  int // of the line, with the holder
	line    []place
	rest    int64 // for how long a free vote is given to nobody (ms)
	set     string
	most    int64
}

type place struct {
	ticket string
	at     lua.Micros
}

// Inspect shows a lock as a majority of nodes sees it, and in [State.Nodes] as each of them does. It
// takes one request to each node, all at once, and writes nothing. A lock whose votes are split is
// shown as free, with all who ask for it in line. The line is that of the node that shows the most;
// it is shown up to 500 places. It is an error if no majority answers.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	keys, err := l.core.Ready(ctx, name)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	views, refused, err := l.views(ctx, keys)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	return l.state(name, views, refused), nil
}

// views asks all nodes, and says of each that shows nothing why. It is an error if no majority
// answers.
func (l *Locker) views(ctx context.Context, keys lua.Keys) (views []view, refused []error, err error) {
	type seen struct {
		view
		err error
	}
	answers := make(chan seen, len(l.nodes))
	if e := l.core.Await(ctx, func() {
		l.round(func(i int) {
			v := view{node: i}
			reply, err := l.nodes[i].run(context.WithoutCancel(ctx), inspectScript,
				[]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey()}, 0, inspected-1, l.most.Milliseconds())
			if err == nil {
				err = v.decode(reply)
			}
			if err == nil {
				err = l.belongs(v.set, v.most)
			}
			answers <- seen{v, err}
		})
	}); e != nil {
		return nil, nil, e
	}
	refused = make([]error, len(l.nodes))
	for i, n := range l.nodes {
		refused[i] = n.reason()
	}
	for range len(answers) {
		a := <-answers
		if refused[a.node] = a.err; a.err == nil {
			views = append(views, a.view)
		} else {
			err = errors.Join(err, a.err)
		}
	}
	if len(views) < l.need() {
		return nil, nil, errors.Join(fmt.Errorf("%d of %d nodes answered: %w", len(views), len(l.nodes), ballot.ErrUnreachable), err)
	}
	return views, refused, nil
}

// decode reads the reply of one node to an inspect.
func (v *view) decode(reply []any) error {
	if len(reply) != 13 {
		return wrongReply("inspect", reply)
	}
	n := numbers(reply)
	line, ok := reply[9].([]any)
	if len(n) != 10 || !ok || len(line)%2 != 0 {
		return wrongReply("inspect", reply)
	}
	v.holder, _ = reply[2].(string)
	v.set, _ = reply[11].(string)
	v.now, v.left, v.token, v.since = lua.Micros(n[0]), n[1], n[2], lua.Micros(n[3])
	v.depth, v.decided, v.length, v.largest, v.rest, v.most = int(n[4]), n[5] == 1, int(n[6]), n[7], n[8], n[9]
	for i := 0; i < len(line); i += 2 {
		ticket, _ := line[i].(string)
		score, _ := line[i+1].(string)
		at, _ := strconv.ParseFloat(score, 64)
		v.line = append(v.line, place{ticket, lua.Micros(at)})
	}
	return nil
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

func (l *Locker) state(name string, views []view, refused []error) *State {
	s := &State{Name: name}
	for i, n := range l.nodes {
		s.Nodes = append(s.Nodes, NodeView{Node: nameOf(n.i, n.rdb), Err: refused[i]})
	}
	holder, decided := l.holderOf(views), false
	for _, v := range views {
		s.Nodes[v.node] = v.shown(s.Nodes[v.node].Node)
		s.Token = max(s.Token, v.largest)
		if v.holder == holder && holder != "" {
			vote, err := v.vote()
			s.Damaged = errors.Join(s.Damaged, err)
			if s.Holder == nil {
				s.Holder = vote
			}
			switch {
			case v.decided && !decided: // the holder has told this node its token; a later vote has another yet
				s.Holder.Token, decided = v.token, true
			case v.decided || !decided:
				s.Holder.Token = max(s.Holder.Token, v.token)
			}
			s.Holder.Depth, s.Holder.Remaining = max(s.Holder.Depth, v.depth), max(s.Holder.Remaining, ms(v.left))
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
// takes a SCAN of each node, and an [Locker.Inspect] for each lock.
func (l *Locker) List(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		names, err := l.names(ctx)
		if err != nil {
			yield(nil, &Error{Op: "list", Name: l.prefix, Err: err})
			return
		}
		for _, name := range names {
			s, err := l.Inspect(ctx, name)
			if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
				continue // somebody else's key; nothing is known of the lock
			}
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
				record := scan.Val()
				if name, ok := strings.CutPrefix(record, l.prefix+":queue:"); ok { // it may be waited for only
					record = l.prefix + ":lock:" + name
				}
				if name, _, err := lua.Named(l.prefix, record); err == nil && !known[name] {
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
	return nil, errors.Join(fmt.Errorf("%d of %d nodes answered: %w", answered, len(l.nodes), ballot.ErrUnreachable), err)
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
	views, _, err := l.views(ctx, keys)
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
			_, err := l.leaveFor(context.WithoutCancel(ctx), i, keys, ticket, rules.Late.Milliseconds(), true)
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
		return errors.Join(fmt.Errorf("%d of %d nodes have ended it: %w", left, len(l.nodes), ballot.ErrUnreachable), err)
	}
	l.core.ForcedHere(keys.Record(), func(h *engine.Hold) bool { return h.Ticket == ticket })
	return nil
}
