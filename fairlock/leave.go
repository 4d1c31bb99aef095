package fairlock

import (
	"context"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
)

// releaser is the Locker as its Keeper sees it.
type releaser struct{ *Locker }

// Release leaves for a hold: one attempt.
func (l releaser) Release(ctx context.Context, h *reentrant.Hold) (lua.Status, error) {
	states, err := l.send(ctx, h.Keys, []lua.LeaveTicket{{Ticket: h.Text, Token: h.Token, Retire: h.Requests.Open()}})
	if err != nil {
		return "", err
	}
	return states[0], nil
}

// Forget drops what is left of the attempt when its hold has ended.
func (l releaser) Forget(h *reentrant.Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.attempts, h.Ticket.Counter)
}

// forget takes a finished attempt out of the table. l.mu must be held.
func (l *Locker) forget(a *attempt) { delete(l.attempts, a.ticket.Counter) }

// leave takes finished attempts of one lock out of its line, and out of its record should they have come there. It is
// repeated until it is answered or no longer matters.
func (l *Locker) leave(all ...*attempt) {
	tickets := make([]lua.LeaveTicket, len(all))
	l.core.Keeper.Persist(func(ctx context.Context) error {
		l.mu.Lock()
		for i, a := range all {
			tickets[i] = lua.LeaveTicket{Ticket: a.text, Place: a.place, Retire: a.requests.Open()}
		}
		l.mu.Unlock()
		_, err := l.send(ctx, all[0].keys, tickets)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range all {
		l.forget(a)
	}
}

// unwanted gives back a grant to a ticket that nobody here knows any more: its leave never got through.
func (l *Locker) unwanted(keys lua.Keys, ticket string, token int64) {
	l.core.Keeper.Go(func() {
		l.core.Keeper.Persist(func(ctx context.Context) error {
			_, err := l.send(ctx, keys, []lua.LeaveTicket{{Ticket: ticket, Token: token, Retire: true}})
			return err
		})
	})
}

// dismiss sees to it that nothing of a finished attempt stays behind. l.mu must be held.
func (l *Locker) dismiss(a *attempt) {
	if a.last.at == 0 && !a.requests.Open() {
		l.forget(a) // nothing of it ever reached the server
		return
	}
	l.core.Keeper.Go(func() { l.leave(a) })
}

// send sends a leave, sees to it that the lock does not stay free with dead tickets ahead of living ones, and takes in a
// grant to another ticket of this client.
func (l *Locker) send(ctx context.Context, keys lua.Keys, tickets []lua.LeaveTicket) ([]lua.Status, error) {
	var states []lua.Status
	for {
		sent := time.Now()
		left, err := l.core.Server.Leave(ctx, keys, tickets)
		l.mu.Lock()
		if err != nil && lua.Unanswered(err) {
			l.hurry(keys) // the answer may have carried a grant
		}
		if left.Grant != nil {
			l.grantedInPassing(keys, left.Grant, sent)
		}
		l.mu.Unlock()
		if states == nil {
			if err != nil {
				return nil, err
			}
			states = left.States
		}
		if !left.More {
			return states, nil
		}
		tickets = nil
	}
}
