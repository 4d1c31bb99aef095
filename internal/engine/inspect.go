package engine

import (
	"context"
	"iter"
	"time"

	"github.com/fairlock/locks/lua"
)

// inspectPage is how many waiters one request shows; listPage is about how many locks.
const (
	inspectPage = 500
	listPage    = 100
)

// overlap is how much of a page the next one shows again: the line moves up in between.
const overlap = 50

// State is what a lock was doing when it was inspected.
type State struct {
	Name    string
	Token   int64    // the largest given so far; 0 if the lock was not used for some minutes
	Holder  *Holder  // nil: it is free
	Waiting int      // length of the line
	Waiters []Waiter // in order; the first is next; of a fair or plain Locker's List the only one

	// Damaged says what in the lock's keys makes no sense; nil if everything does. Another program,
	// or another release of this package, wrote there. The rest of the State is what could be read;
	// what could not is zero or missing. A damaged holder can be forced. What is no waiter is
	// dropped when its turn comes. Only a damaged token key has to be deleted by hand: nobody is
	// given the lock until then.
	Damaged error

	Nodes []NodeView // what each node says, in the order of New; nil unless it is a quorum's lock
}

// NodeView is what one node of a quorum says of a lock. A majority of such votes is the lock.
type NodeView struct {
	Node       string        // its address
	Err        error         // why it says nothing; all below is zero then
	Vote       *Holder       // who has its vote; nil: nobody
	Decided    bool          // whoever has its vote has a majority, and it knows that
	Token      int64         // the largest that it knows; 0 if it has not heard of the lock for some minutes
	Waiting    int           // length of its line
	Quarantine time.Duration // for how long it gives nobody its vote: it may have forgotten what it granted; see quorum.NodeStatus
}

// Holder is who has a lock.
type Holder struct {
	Owner     string // empty while the server, having lost data, waits for the holder to return
	Note      string
	Token     int64 // of its Leases, unless it is Undecided
	Depth     int   // Leases on it, over all processes of the owner; up to a second old
	Holds     int   // calls that hold the lock: several only with WithOwner, one per process
	Since     time.Time
	Held      time.Duration // since then
	Remaining time.Duration // until the lock is free if nobody renews it

	// Undecided says, of a quorum's lock, that the holder has a majority of the votes and no node
	// knows yet whether it knows that. A hold's first second is like this. Token is the largest of
	// the votes', then, and the Lease may have the token of another one.
	Undecided bool
}

// Waiter is one place in line.
type Waiter struct {
	ID     string // names this waiter to Evict
	Owner  string
	Note   string
	Since  time.Time
	Waited time.Duration // since then
}

// Inspect shows a lock as the server sees it. It takes one round trip, and one more for every 500
// waiters. If the line changes meanwhile, each page of waiters is shown as it was when it was read.
// Inspect changes no lock. But a Locker's first call, whichever it is, takes four more requests and
// may write PREFIX:protocol. A damaged lock is no error: see State.Damaged.
//
// A turn on the hold of another ticket is shown once it has lasted half a second.
func (c *Core) Inspect(ctx context.Context, name string) (*State, error) {
	state, err := c.inspect(ctx, name)
	if err != nil {
		return nil, &Error{"inspect", name, err}
	}
	return state, nil
}

func (c *Core) inspect(ctx context.Context, name string) (*State, error) {
	keys, err := c.Ready(ctx, name)
	if err != nil {
		return nil, err
	}
	read := func(from, most int) (lua.State, error) {
		if c.isClosed() {
			return lua.State{}, ErrClosed
		}
		var page lua.State
		var err error
		if e := c.Await(ctx, func(ctx context.Context) { page, err = c.Server.Inspect(ctx, keys, from, most) }); e != nil {
			return lua.State{}, e
		}
		return page, err
	}
	var state *State
	for page, err := range pages(read) {
		if err != nil {
			return nil, err
		}
		if state == nil {
			state = newState(name, page)
		}
		state.stand(page)
	}
	return state, nil
}

// pages are a line as read reads it, in pages that overlap. A waiter that a page shows is left out of
// the next. An error is the last.
func pages(read func(from, most int) (lua.State, error)) iter.Seq2[lua.State, error] {
	return func(yield func(lua.State, error) bool) {
		var before []lua.Waiter // as the page before has them
		for from, most := 0, inspectPage; ; from, most = from+most-overlap, inspectPage+overlap {
			page, err := read(from, most)
			all := page.Waiters
			if len(before) > 0 {
				page.Waiters = others(all, before)
			}
			if !yield(page, err) || err != nil || page.Page < most {
				return
			}
			before = all
		}
	}
}

// others are the waiters of all that are not in those.
func others(all, those []lua.Waiter) (rest []lua.Waiter) {
	known := make(map[string]bool, len(those))
	for _, w := range those {
		known[w.Ticket.ID()] = true
	}
	for _, w := range all {
		if !known[w.Ticket.ID()] {
			rest = append(rest, w)
		}
	}
	return rest
}

// Ready checks what an operation on one lock needs: its name, ctx, an open Locker, and contact.
func (c *Core) Ready(ctx context.Context, name string) (lua.Keys, error) {
	keys, err := c.Open(ctx, name)
	if err == nil {
		err = c.Contact(ctx, keys, 0)
	}
	return keys, err
}

// Open is Ready without contact.
func (c *Core) Open(ctx context.Context, name string) (lua.Keys, error) {
	keys, err := c.keys(name)
	if err == nil {
		err = checkContext(ctx)
	}
	switch {
	case err != nil:
	case c.isClosed():
		err = ErrClosed
	case ctx.Err() != nil:
		err = EndOf(ctx)
	}
	return keys, err
}

func newState(name string, page lua.State) *State {
	state := &State{Name: name, Token: page.Token, Waiting: page.Waiting, Damaged: page.Damaged}
	if !page.Held {
		return state
	}
	h := &Holder{
		Owner: page.Owner, Token: page.HeldToken, Since: page.Since.Time(), Held: page.Now.Sub(page.Since), Remaining: page.Remaining,
	}
	for _, hold := range page.Holds {
		if hold.Deadline <= page.Now {
			continue // its process died; another hold of the owner keeps the record
		}
		h.Holds++
		h.Depth += hold.Depth
		shown := hold.Ticket
		if hold.Turn != (lua.Ticket{}) {
			shown, h.Owner = hold.Turn, hold.Turn.Identity()
		}
		if h.Note == "" {
			h.Note = shown.Note
		}
	}
	state.Holder = h
	return state
}

// stand adds the waiters of a page.
func (s *State) stand(page lua.State) {
	if s.Damaged == nil {
		s.Damaged = page.Damaged
	}
	for _, w := range page.Waiters {
		s.Waiters = append(s.Waiters, Waiter{
			ID: w.Ticket.ID(), Owner: w.Ticket.Identity(), Note: w.Ticket.Note, Since: w.Place.Time(), Waited: page.Now.Sub(w.Place),
		})
	}
}

// List goes through all locks under the Locker's prefix that are held or waited for, in no order,
// by SCAN. A lock that is held or waited for all the time is shown once; any other is shown once or
// not at all. A State counts all waiters and shows the first. List takes about two round trips for
// every hundred keys of the database. An error ends it; a damaged lock does not, and is shown.
func (c *Core) List(ctx context.Context) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		if err := c.list(ctx, func(s *State) bool { return yield(s, nil) }); err != nil {
			yield(nil, &Error{"list", c.Settings.Prefix, err})
		}
	}
}

func (c *Core) list(ctx context.Context, yield func(*State) bool) error {
	if _, err := c.Ready(ctx, "any"); err != nil {
		return err
	}
	scan := c.Server.Scan(c.Settings.Prefix, listPage)
	for more := true; more; {
		if c.isClosed() {
			return ErrClosed
		}
		var states []lua.Listed
		var err error
		if e := c.Await(ctx, func(ctx context.Context) { states, more, err = scan.Next(ctx) }); e != nil {
			return e
		}
		if err != nil {
			return err
		}
		for _, s := range states {
			if !s.State.Held && s.State.Waiting == 0 && s.State.Damaged == nil {
				continue
			}
			state := newState(s.Name, s.State)
			state.stand(s.State)
			if !yield(state) {
				return nil
			}
		}
	}
	return nil
}

// Evict takes the waiter with this ID out of the line, if it is there.
func (c *Core) Evict(ctx context.Context, name, waiter string) (bool, error) {
	keys, err := c.Ready(ctx, name)
	if err != nil {
		return false, err
	}
	evicted := false
	if e := c.Await(ctx, func(ctx context.Context) { evicted, err = c.evict(ctx, keys, waiter) }); e != nil {
		return false, e
	}
	return evicted, err
}

func (c *Core) evict(ctx context.Context, keys lua.Keys, waiter string) (bool, error) {
	for range 3 { // a line of several pages moves up meanwhile, past the page that is read next
		w, pages, err := c.findWaiter(ctx, keys, waiter)
		switch {
		case err != nil:
			return false, err
		case w != nil:
			return c.Server.Evict(ctx, keys, *w)
		case pages == 1:
			return false, nil
		}
	}
	return false, nil
}

// findWaiter returns the waiter of that id, or nil, and how many pages of the line it has read.
func (c *Core) findWaiter(ctx context.Context, keys lua.Keys, waiter string) (w *lua.Waiter, count int, err error) {
	read := func(from, most int) (lua.State, error) { return c.Server.Inspect(ctx, keys, from, most) }
	for page, err := range pages(read) {
		if err != nil {
			return nil, count, err
		}
		count++
		for i := range page.Waiters {
			if page.Waiters[i].Ticket.ID() == waiter {
				return &page.Waiters[i], count, nil
			}
		}
	}
	return nil, count, nil
}
