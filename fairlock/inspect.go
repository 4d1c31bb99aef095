package fairlock

import (
	"context"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
)

// inspectPage is how many waiters one request shows.
const inspectPage = 500

// State is what a lock was doing when it was inspected.
type State struct {
	Name    string
	Token   int64    // the largest given so far; 0 if the lock was not used for some minutes
	Holder  *Holder  // nil: it is free
	Waiters []Waiter // in order; the first is next
}

// Holder is who has a lock.
type Holder struct {
	Owner     string // empty while the server, having lost data, waits for the holder to return
	Note      string
	Token     int64
	Depth     int // Leases on it, over all processes of the owner; up to a second old
	Since     time.Time
	Remaining time.Duration // until it is free if nobody renews it
}

// Waiter is one place in line.
type Waiter struct {
	Owner  string
	Note   string
	Waited time.Duration
}

// Inspect shows a lock as the server sees it. One round trip, and one more for every 500 waiters; a line that changes meanwhile
// is shown as its pages were seen. Nothing is written.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	state, err := l.inspect(ctx, name)
	if err != nil {
		return nil, &Error{Op: "inspect", Name: name, Err: err}
	}
	return state, nil
}

func (l *Locker) inspect(ctx context.Context, name string) (*State, error) {
	if l.settings.Err != nil {
		return nil, l.settings.Err
	}
	keys, err := lua.NewKeys(l.settings.Prefix, name)
	if err != nil {
		return nil, reentrant.Invalid("%v", err)
	}
	if l.isClosed() {
		return nil, ErrClosed
	}
	if err := l.check(ctx, 0); err != nil {
		return nil, err
	}
	state := &State{Name: name}
	for from := 0; ; from += inspectPage {
		var page lua.State
		if l.keeper.Await(ctx, func() { page, err = l.server.Inspect(ctx, keys, from, inspectPage) }) != nil {
			return nil, reentrant.EndOf(ctx)
		}
		if err != nil {
			return nil, err
		}
		if from == 0 {
			state.Token, state.Holder = page.Token, holder(page)
		}
		for _, w := range page.Waiters {
			state.Waiters = append(state.Waiters, Waiter{w.Ticket.Identity(), w.Ticket.Note, page.Now.Sub(w.Place)})
		}
		if len(page.Waiters) < inspectPage {
			return state, nil
		}
	}
}

func holder(page lua.State) *Holder {
	if !page.Held {
		return nil
	}
	h := &Holder{Owner: page.Owner, Token: page.HeldToken, Since: page.Since.Time(), Remaining: page.Remaining}
	for _, hold := range page.Holds {
		h.Depth += hold.Depth
		if h.Note == "" {
			h.Note = hold.Ticket.Note
		}
	}
	return h
}
