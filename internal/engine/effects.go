package engine

import "time"

// effects collects what is to be done once no mutex is held: first the Leases' contexts end, then
// the locks leave the server, and the user and the Locker are told.
type effects struct {
	shares []*share // whose contexts end
	cause  error
	gone   []*Hold     // the Locker can forget them
	leaves []departure // the same, later; each counts as a task
	lost   []loss
}

// departure is a lost hold that the Locker forgets after a rest. For so long the server may have it,
// and its user the margin to stop: whoever finds its ticket gives back nothing.
type departure struct {
	hold  *Hold
	rest  time.Duration
	leave bool // from the server, before it is forgotten
}

// loss is what the user is told of a lost lock.
type loss struct {
	turn    *Turn
	adopted *adoption // nil: the turn had no Lease, or there is no observer
	line    []any     // for the log
}

// end ends the contexts of t's Leases. Core.mu must be held.
func (e *effects) end(t *Turn, cause error) {
	e.shares = append(e.shares, t.shares...)
	e.cause = cause
	for _, s := range t.shares { // else all that the share reaches stays in memory until Unlock
		s.cleanup.Stop()
	}
}

// ended is the event of the turn's end.
func (t *Turn) ended(kind Kind, err error) Event {
	return Event{Kind: kind, Context: t.adopted.ctx, Name: t.Name, Owner: t.Ticket.Identity(), Token: t.Token, Took: time.Since(t.adopted.at), Err: err}
}

// carryOut does what was collected. No mutex may be held: a share's cancel takes Core.mu, and
// Strategy.Forget the Locker's.
func (e *effects) carryOut(c *Core) {
	for _, s := range e.shares {
		s.cancel(e.cause)
	}
	for _, l := range e.leaves { // only now: somebody else has the lock then
		go func() {
			defer c.Done()
			c.rest(l.rest)
			if l.leave {
				c.takeBack(l.hold)
			}
			c.strategy.Forget(l.hold)
		}()
	}
	for _, l := range e.lost {
		c.Settings.Logger.Warn("fairlock: lock lost", l.line...)
		if l.adopted != nil {
			c.Settings.Observe(l.turn.ended(Lost, l.turn.release.err))
		}
	}
	for _, h := range e.gone {
		c.strategy.Forget(h)
	}
}
