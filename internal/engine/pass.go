package engine

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// Next is a waiting call that may have the next turn on a hold.
type Next struct {
	For
	Ticket   lua.Ticket
	Place    lua.Place
	Requests *Requests
}

// Run is what a grant allows besides the turn of its own ticket: further turns of the same client,
// each with a token of its own. The zero Run allows none.
type Run struct {
	Turns    int           // so many
	For      time.Duration // for so long after the grant a turn may begin
	Counters []uint64      // of the tickets that they are for, if the server has those in line
}

// run is the Run of a hold. Core.mu guards all but the Run, which does not change.
type run struct {
	Run
	reached   int // so many turns have begun, or were of calls that had ended
	followers []follower
}

// follower is a ticket that has, or had, a turn on the hold of another.
type follower struct {
	ticket   lua.Ticket
	place    lua.Place
	requests *Requests
	left     bool // the server has it in line no more
}

// Pass ends a hold's turn, which nobody has a Lease on any more, and begins the next turn: that of
// the ticket in the hold's Rest with that index, or of any ticket (and index 0) if the Run names
// none. It returns nil, and does nothing, if the lock has to be released now. No request is sent.
// The turn has no Lease yet: Adopt or Abandon must follow.
func (c *Core) Pass(h *Hold, n Next, index int) *Turn {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := h.run
	if c.closed || r.reached+index >= r.Turns || h.Requests.Underway() || !h.Passes(n.Ticket.Lease, r.For, now) {
		return nil
	}
	c.settle(h.turn, nil)
	h.Pass(now)
	if r.Counters != nil {
		r.followers = append(r.followers, follower{ticket: n.Ticket, place: n.Place, requests: n.Requests})
	}
	r.reached += index + 1
	h.turn = &Turn{For: n.For, Ticket: &n.Ticket, Token: h.Token - int64(r.Turns-r.reached), hold: h}
	c.remember(h.turn)
	c.watch(h)
	return h.turn
}

// Rest are the counters of those tickets of the run that have had no turn yet.
func (h *Hold) Rest() []uint64 {
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	return h.run.Counters[h.run.reached:]
}

// Followers are the counters of the tickets that have, or had, a turn on the hold after its own.
func (h *Hold) Followers() (all []uint64) {
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	for _, f := range h.followers() {
		all = append(all, f.ticket.Counter)
	}
	return all
}

// followers are those that have, or had, a turn. Core.mu must be held.
func (h *Hold) followers() []follower {
	if h.run == nil {
		return nil
	}
	return h.run.followers
}

// Leaves appends the parts of the leave that gives the hold back: of its own ticket, and of those
// that had a turn after it.
func (h *Hold) Leaves(all []lua.LeaveTicket) []lua.LeaveTicket {
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	all = append(all, h.Leave(h.Ticket, h.Token, h.Requests.Open()))
	return append(all, h.inLine()...)
}

// inLine are the parts of a leave for those that had a turn and are still in line. c.mu must be
// held.
func (h *Hold) inLine() (all []lua.LeaveTicket) {
	for _, f := range h.followers() {
		if !f.left {
			all = append(all, lua.LeaveTicket{Ticket: f.ticket, Place: f.place, Retire: f.requests.Open()})
		}
	}
	return all
}

// leaveLine takes those that had a turn out of the line while the last of them goes on: nobody
// shall see them there for long. A failed request is repeated with the hold's next renewal.
func (c *Core) leaveLine(h *Hold) {
	c.mu.Lock()
	all, n := h.inLine(), len(h.followers())
	c.mu.Unlock()
	if c.strategy.LeaveLine(h, all) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		h.run.followers[i].left = true
	}
}
