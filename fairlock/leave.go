package fairlock

import (
	"context"
	"runtime"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// LeaveLine takes tickets that had turns on a hold out of the line: one attempt. If the hold is
// lost by now, the answer may give the lock to another call of this process.
func (s strategy) LeaveLine(h *engine.Hold, tickets []lua.LeaveTicket) error {
	_, err := s.send(context.Background(), s.core.Server, h.Keys, tickets)
	return err
}

// Release leaves for a hold: one attempt.
func (s strategy) Release(ctx context.Context, server *lua.Server, h *engine.Hold) (lua.Was, error) {
	var one [1]lua.LeaveTicket
	were, err := s.send(ctx, server, h.Keys, h.Leaves(one[:0]))
	if err != nil {
		return "", err
	}
	return were[0], nil
}

// Forget drops what is left of the attempts that had turns on a hold that has ended.
func (s strategy) Forget(h *engine.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends(h)
	delete(s.attempts, h.Ticket.Counter)
	for _, counter := range h.Followers() {
		delete(s.attempts, counter)
	}
}

// Knows reports whether an attempt or a hold has that ticket.
func (s strategy) Knows(counter uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knows(counter)
}

// knows is Knows, with l.mu held.
func (l *Locker) knows(counter uint64) bool { return l.attempts[counter] != nil }

// LeaveStray gives back what a stray ticket has.
func (s strategy) LeaveStray(keys lua.Keys, t lua.Ticket) { s.unwanted(keys, t) }

// forget takes a finished attempt out of the table. l.mu must be held.
func (l *Locker) forget(a *attempt) { delete(l.attempts, a.ticket.Counter) }

// leaves has a finished attempt leave, together with others of its lock that end at the same moment.
// A crowd that gives up would else send so many requests that this process renews its locks late.
// l.mu must be held.
func (l *Locker) leaves(a *attempt) {
	with, sends := l.leaving.begin(a, !l.apart(), false, lua.MaxTickets)
	if !sends {
		return
	}
	l.core.Go(func() {
		all := a.alone[:]
		if with != nil {
			runtime.Gosched()
			l.mu.Lock()
			all = l.leaving.close(a, with)
			l.mu.Unlock()
		}
		l.leave(all...)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leaving.end(a)
	})
}

// leave takes finished attempts of one lock out of its line, and out of its record if they were
// granted the lock. The request is repeated until it is answered or no longer matters.
func (l *Locker) leave(all ...*attempt) {
	tickets := make([]lua.LeaveTicket, len(all))
	var lease time.Duration
	for _, a := range all {
		lease = max(lease, a.ticket.Lease)
	}
	l.core.Persist(lease, func(ctx context.Context) error {
		l.mu.Lock()
		for i, a := range all {
			tickets[i] = a.Leave(a.ticket, a.requests.Open())
		}
		l.mu.Unlock()
		_, err := l.send(ctx, l.core.Server, all[0].Keys, tickets)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.forget(a)
	}
}

// unwanted gives back a grant to a ticket that no call of this client knows any more. The ticket's
// leave never got through.
func (l *Locker) unwanted(keys lua.Keys, t lua.Ticket) {
	l.core.Go(func() {
		l.core.Persist(t.Lease, func(ctx context.Context) error {
			_, err := l.send(ctx, l.core.Server, keys, []lua.LeaveTicket{rules.Unknown(t)})
			return err
		})
	})
}

// send sends a leave and handles a grant to another ticket of this client. It repeats the request
// while the server says that there is more to do: the lock must not stay free with dead tickets
// ahead of living ones.
func (l *Locker) send(ctx context.Context, server *lua.Server, keys lua.Keys, tickets []lua.LeaveTicket) ([]lua.Was, error) {
	var were []lua.Was
	for {
		left, err := l.sendOnce(ctx, server, keys, tickets)
		if were == nil {
			if err != nil {
				return nil, err
			}
			were = left.Were
		}
		if !left.More {
			return were, nil
		}
		tickets = nil
	}
}

// sendOnce sends a leave. The answer may have carried a grant, if the request goes unanswered or is
// cut short by a hook of the client's.
func (l *Locker) sendOnce(ctx context.Context, server *lua.Server, keys lua.Keys, tickets []lua.LeaveTicket) (left lua.Left, err error) {
	sent := time.Now()
	err = lua.ErrCutShort
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil && lua.Unanswered(err) {
			l.hurry(keys.Record())
		}
		if left.Grant != nil {
			l.grantedInPassing(keys, left.Grant, sent)
		}
	}()
	return server.Leave(ctx, keys, tickets)
}
