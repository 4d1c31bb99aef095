package reentrant

import (
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
)

// run is what a grant to c allows the other calls of this process: turns without a request. The
// numbers that no token has used yet are their tokens, so a turn's token is smaller than the
// record's. Where nobody waits there is no run: there a Lease has the token that inspection shows.
// l.mu must be held.
func (l *Locker) run(c *call, unused int64) engine.Run {
	if waits := c.passed != nil; !c.Request.Shares() || !waits && !l.waiters[c.Keys.Record()].busy() {
		return engine.Run{}
	}
	return engine.Run{Turns: int(min(rules.PlainTurns, unused)), For: rules.PlainRunFor}
}

// PassOn gives the next turn on a hold to the first of the calls that wait in this process. If that
// one cannot have it, the lock is released to all: nobody shall be overtaken by a later call.
func (s strategy) PassOn(h *engine.Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiters[h.Keys.Record()]
	if w == nil || len(w.inLine) == 0 {
		return false
	}
	c := w.inLine[0]
	if !c.Request.Shares() || engine.IsClosed(c.away) {
		return false
	}
	turn := s.core.Pass(h, engine.Next{For: engine.For{Name: c.Name}, Ticket: s.core.Ticket(&c.Request)}, 0)
	if turn == nil {
		return false
	}
	w.inLine[0], w.inLine = nil, w.inLine[1:]
	c.passed <- turn
	return true
}
