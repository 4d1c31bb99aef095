package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// grace is how long an Unlock waits for the last nodes after a majority has answered. The next call
// of this process would otherwise find its own record there.
const grace = 2 * time.Millisecond

// release is how a hold is given back at all nodes. All of it is guarded by Locker.mu.
type release struct {
	ballot.Release
	trusted  []bool        // whose votes are, of the nodes that have not said what became of them
	err      error         // of a node that refused, or could not be asked any more
	all      chan struct{} // closed when all nodes have answered
	patience *time.Timer   // how long the latest call of Release waits for all
}

// Release leaves all nodes, once. It waits for a majority, but no longer than a node may be silent,
// and then for a moment for the others. The requests go on in the background.
func (s strategy) Release(ctx context.Context, _ *lua.Server, h *engine.Hold) (lua.Was, error) {
	s.mu.Lock()
	c := s.calls[h.Ticket.Counter]
	if c == nil {
		s.mu.Unlock()
		return "", lua.ErrCutShort
	}
	r, own := c.release, func() {}
	if r == nil {
		r, own = s.beginRelease(ctx, c, h.Token)
		c.release = r
	}
	if r.patience = time.NewTimer(silence); r.Known() {
		r.patience.Reset(grace)
	}
	patience := r.patience.C
	defer r.patience.Stop()
	s.mu.Unlock()
	own()
	select { // once: after a majority's answer, the others change the timer
	case <-r.all:
	case <-patience:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.lapse(c)
	switch {
	case r.Free() && r.Clean():
		return lua.Held, nil
	case !r.Known() && r.Refused():
		return "", &engine.Final{Err: r.err}
	case !r.Free():
		heard := fmt.Errorf("%d of %d nodes have heard it: %w", r.Heard(), len(s.nodes), rules.ErrUnreachable)
		if why := errors.Join(r.err, byNode(s.absent())); why != nil {
			heard = fmt.Errorf("%w\n%v", heard, why) //nolint:errorlint // as text: what a node refused is no refusal of the release
		}
		return "", &engine.GoesOn{Err: heard}
	}
	return r.Was(), nil // nodes that are away could say otherwise: nobody waits for them
}

// beginRelease sends a leave to every node that was asked: to one of them by own, which the caller
// calls. Locker.mu must be held.
func (l *Locker) beginRelease(ctx context.Context, c *call, token int64) (r *release, own func()) {
	now := time.Now()
	r, own = &release{Release: c.Ballot.Release(now), trusted: make([]bool, len(l.nodes)), all: make(chan struct{})}, func() {}
	mine, prompt := l.ownLeg(ctx, 0)
	for i := range l.nodes {
		r.trusted[i] = c.Has(i, now)
		if !c.Asked(i) {
			r.left(i, "", false, nil)
			continue
		}
		until, by := context.Background(), l.nodes[i].server
		if i == mine {
			until, by = ctx, prompt
		}
		leave := func() {
			l.leaves(until, c, i, token, by, func(was lua.Was, again bool, err error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				r.lapse(c)
				r.left(i, was, again, err)
			})
		}
		if i == mine {
			own = leave
			continue
		}
		l.crew.run(leave)
	}
	return r, own
}

// lapse counts no vote of which no node has said what became of it, once the trust in it has ended:
// the node may have let somebody in. What a majority has heard is over by then. Locker.mu must be
// held.
func (r *release) lapse(c *call) {
	if r.Free() {
		return
	}
	now := time.Now()
	for i, trusted := range r.trusted {
		if trusted && c.TrustOver(i, now) {
			r.trusted[i] = false
			r.Lapsed()
		}
	}
}

// left counts what a node said, or that it said nothing of use. Locker.mu must be held.
func (r *release) left(i int, was lua.Was, again bool, err error) {
	knew := r.Known()
	if err != nil {
		r.err = err
		r.Failed()
	} else {
		r.Left(was, r.trusted[i], again)
		r.trusted[i] = false
	}
	if r.Known() && !knew && r.patience != nil {
		r.patience.Reset(grace)
	}
	if r.Over() {
		close(r.all)
	}
}
