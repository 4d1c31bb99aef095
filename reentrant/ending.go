package reentrant

import "time"

// ending collects what is to be done once no mutex is held: contexts end first, and then whoever
// is to be told is.
type ending struct {
	grips []*grip // whose contexts end
	cause error
	gone  []*Hold // which the Locker can forget
	lost  []loss
}

// loss is what is told of a lost hold.
type loss struct {
	hold    *Hold
	adopted *adoption // nil: it had no Lease, or there is no observer
	line    []any     // of the log
}

func (e *ending) add(h *Hold, cause error) {
	e.grips = append(e.grips, h.grips...)
	e.cause = cause
}

// ended is the event of its end.
func (h *Hold) ended(kind Kind, err error) Event {
	return Event{Kind: kind, Context: h.adopted.ctx, Name: h.Name, Owner: h.Ticket.Identity(), Token: h.Token, Took: time.Since(h.adopted.at), Err: err}
}

func (e *ending) carryOut(k *Keeper) {
	for _, g := range e.grips {
		g.end(e.cause)
	}
	for _, g := range e.grips {
		if inner := g.scope(); inner != nil {
			go inner(e.cause) // it tells a context of the user's that a child is gone, which may take its time
		}
	}
	for _, l := range e.lost {
		k.settings.Logger.Warn("fairlock: lock lost", l.line...)
		if l.adopted != nil {
			k.settings.Observe(l.hold.ended(Lost, l.hold.ending.err))
		}
	}
	for _, h := range e.gone {
		k.releaser.Forget(h)
	}
}
