package simulate

import (
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/simulate/stage"
)

// turns are the calls of one client that may have the lock one after the other by one grant.
type turns struct {
	most int              // so many may, besides the call that the lock was given to
	run  []string         // their tickets, in line; none for a plain lock: there it may be any calls
	had  map[int64]string // who had a turn, by its token
}

// turnsOf are the turns of a grant to a ticket. is is the state after it, last the largest token
// before. Owners with a name have no turns.
func turnsOf(is *state, ticket string, last int64, plain bool) turns {
	t := turns{had: make(map[int64]string)}
	unused := int(max(is.token-last-1, 0))
	switch {
	case ownerOf(ticket) != stage.CallOf(ticket):
	case plain:
		t.most = min(rules.PlainTurns, unused)
	case last > 0:
		for _, p := range is.line[:min(lua.MaxRun, unused, len(is.line))] {
			if stage.ClientOf(p.ticket) != stage.ClientOf(ticket) || ownerOf(p.ticket) != stage.CallOf(p.ticket) {
				break
			}
			t.run = append(t.run, p.ticket)
		}
		t.most = len(t.run)
	}
	return t
}

// begins notes that an owner has the turn with that token, and reports whether it may.
func (g *grant) begins(owner string, token int64) bool {
	n := int(g.token - token)
	had := g.had[token]
	g.had[token] = owner
	switch {
	case g.most == 0:
		return true
	case had != "" && had != owner:
		return false
	case n == 0 && owner == stage.CallOf(g.ticket):
		return true // its client does not know of the turns
	case g.run == nil:
		return stage.ClientOf(owner) == stage.ClientOf(g.ticket) && single(owner)
	}
	all := append([]string{g.ticket}, g.run...)
	return stage.CallOf(all[len(all)-1-n]) == owner
}

// others are the owners that had a turn.
func (g *grant) others() (all []string) {
	if g == nil {
		return nil
	}
	for _, owner := range g.had {
		all = append(all, owner)
	}
	return all
}

// cleanly notes that a ticket's hold, and with it the last turn on it, was released while in force.
func (g *grant) cleanly(lk *lock, ticket string) {
	lk.clean[stage.CallOf(ticket)] = g
	if g == nil {
		return
	}
	for _, turn := range g.run { // its call may yet have to hear of its turn
		lk.clean[stage.CallOf(turn)] = g
	}
	for _, owner := range g.others() {
		lk.clean[owner] = g
	}
}

// hasReleased reports whether a belief's hold was released while in force. Its owner may have been
// in the run of another grant before, whose release is none of this one. But where the server's
// clock steps over a claim, the same call may be granted the lock again by its heartbeat.
func (b *belief) hasReleased() bool {
	g := b.lk.clean[b.owner]
	return g != nil && (g == b.lk.grants[b.token] || stage.CallOf(g.ticket) == b.owner)
}

// passed reports whether a turn may have passed to another call, without the server.
func (r *referee) passed(b *belief) bool {
	g := b.lk.grants[b.token]
	return g != nil && b.token < g.token && b.left.Sub(b.start) < 100*time.Millisecond
}

// running reports whether other calls may have turns on some present hold.
func (r *referee) running() bool {
	for _, lk := range r.locks {
		if g := lk.grants[lk.owned]; lk.free.IsZero() && g != nil && g.most > 0 {
			return true
		}
	}
	return false
}
