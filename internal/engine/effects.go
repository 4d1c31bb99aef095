package engine

import "time"

// effects collects what is to be done once no mutex is held: first the Leases' contexts end, then
// the user and the Locker are told. The context inside a Do ends in a goroutine of its own, which
// Close does not wait for.
type effects struct {
	shares []*share // whose contexts end
	cause  error
	gone   []*Hold // the Locker can forget them
	lost   []loss
}

// loss is what the user is told of a lost hold.
type loss struct {
	hold    *Hold
	adopted *adoption // nil: the hold had no Lease, or there is no observer
	line    []any     // for the log
}

func (e *effects) end(h *Hold, cause error) {
	e.shares = append(e.shares, h.shares...)
	e.cause = cause
}

// ended is the event of the hold's end.
func (h *Hold) ended(kind Kind, err error) Event {
	return Event{Kind: kind, Context: h.adopted.ctx, Name: h.Name, Owner: h.Ticket.Identity(), Token: h.Token, Took: time.Since(h.adopted.at), Err: err}
}

func (e *effects) carryOut(c *Core) {
	for _, s := range e.shares {
		s.end(e.cause)
	}
	for _, s := range e.shares {
		if inner := s.scope(); inner != nil {
			go inner(e.cause) // may call into a user's context, which may take its time
		}
	}
	for _, l := range e.lost {
		c.Settings.Logger.Warn("fairlock: lock lost", l.line...)
		if l.adopted != nil {
			c.Settings.Observe(l.hold.ended(Lost, l.hold.release.err))
		}
	}
	for _, h := range e.gone {
		c.strategy.Forget(h)
	}
}
