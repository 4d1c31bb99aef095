package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Granted is what the server gave to a call.
type Granted struct {
	Name     string
	Keys     lua.Keys
	Ticket   lua.Ticket
	Token    int64
	Since    lua.Micros
	Requests *Requests
	Copies   *Copies // nil: there need not be any
}

// Copies are what a call wants to be sure of before it has the lock.
type Copies struct {
	Need lua.Replicas
	Have *lua.Confirmed // by the request that brought the grant; nil if that did not ask
}

// NewCopies is nil if none are needed.
func NewCopies(need lua.Replicas, have *lua.Confirmed) *Copies {
	if !need.Asked() {
		return nil
	}
	return &Copies{need, have}
}

// Hold is one ownership. The exported fields are those of its grant and do not change.
type Hold struct {
	Granted
	core  *Core
	ready chan struct{} // nil, or closed when a fixed lease's claim has become that lease, or was lost

	// Guarded by core.mu.
	rules.Hold
	settled bool      // ready is closed
	index   int32     // in the schedule; -1 if it is not there
	shares  []*share  // of the Leases that have not ended
	release release   // or how it was lost
	adopted *adoption // for the observer; nil if there is none, or it has had no Lease

	// Room for what a hold usually has one of.
	first share
	only  [1]*share
}

// adoption is how a hold got its first Lease.
type adoption struct {
	at  time.Time
	ctx context.Context // of that Lease
}

// Keep takes a grant into the watchdog's care; a fixed lease is not renewed. The hold has no Lease
// yet: Adopt or Abandon must follow.
func (c *Core) Keep(g Granted, t rules.Term, fixed bool) *Hold {
	h := &Hold{Granted: g, core: c, index: -1, Hold: rules.Begin(t, g.Ticket.Lease, fixed, time.Now())}
	if fixed && h.Claimed() {
		h.ready = make(chan struct{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.watch(h)
	return h
}

// Adopt gives the first Lease on h. A fixed lease that is still a claim is confirmed first, and the replicas that the call
// asks for must have it; if that fails the hold is lost or given back, and if ctx ends meanwhile it is given back. The call
// has waited since began, and may do so for wait: below or at zero, for as long as it takes.
//
// A Lease that it returns was given before the Locker was closed. Whatever else happens, a panic
// in the user's context included, the hold is given back.
func (c *Core) Adopt(ctx context.Context, h *Hold, began time.Time, wait time.Duration) (lease *Lease, err error) {
	if h.ready != nil || h.Copies != nil { // it may take a while: Close waits for what comes of it
		c.Begun()
		defer c.Done()
	}
	defer func() {
		if lease == nil {
			c.Abandon(h)
		}
	}()
	if h.ready != nil {
		if err := c.confirmed(ctx, h, began, wait); err != nil {
			return nil, err
		}
	}
	if err := c.replicate(ctx, h); err != nil {
		if ctx.Err() != nil {
			err = waited(ctx, began)
		}
		return nil, err
	}
	return c.adopt(ctx, h, began)
}

// confirmed returns when the claim has become the fixed lease, or was lost; else h is given back.
func (c *Core) confirmed(ctx context.Context, h *Hold, began time.Time, wait time.Duration) error {
	select {
	case <-h.ready: // while a callback kept the call, for longer than it meant to wait maybe
		return nil
	default:
	}
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(time.Until(began.Add(wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
		return &WaitError{Waited: time.Since(began), Err: context.DeadlineExceeded}
	case <-h.ready:
		return nil
	case <-ctx.Done():
		return waited(ctx, began)
	case <-c.stop: // nobody asks for the confirmation any more
		return ErrClosed
	}
}

// waited is the error of a call whose context ended when it nearly had the lock.
func waited(ctx context.Context, began time.Time) error {
	return &WaitError{Waited: time.Since(began), Err: EndOf(ctx)}
}

func (c *Core) adopt(ctx context.Context, h *Hold, began time.Time) (*Lease, error) {
	values := detached(ctx)
	var after effects
	defer after.carryOut(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.check(h, &after); err != nil {
		return nil, err
	}
	if !h.Leasable(c.closed) {
		return nil, ErrClosed
	}
	c.holds[h.Keys.Record()] = h
	lease := c.lease(values, h)
	if c.Settings.Observer != nil {
		h.adopted = &adoption{time.Now(), lease.share.ctx}
		c.Settings.Observe(Event{
			Kind: Acquired, Context: lease.share.ctx, Name: h.Name, Owner: h.Ticket.Identity(), Token: h.Token, Took: h.adopted.at.Sub(began),
		})
	}
	return lease, nil
}

// Present is who of this process can be sure to have a lock now, and until when at most if nobody renews it.
func (c *Core) Present(record string) (owner string, expires time.Time, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[record]
	if h == nil || rules.Passed(h.Trusted, time.Now()) {
		return "", time.Time{}, false
	}
	return h.Ticket.Identity(), h.Term.Expires, true
}

// Forced takes in a message that an ownership was ended by force. Its process may have the lock again by now.
func (c *Core) Forced(m lua.Message) {
	c.end(m.Record, m.Token, func(h *Hold) bool { return h.Ticket == m.Ticket })
}

// ForcedHere takes in that this process has ended an ownership by force: its own holders are told
// by nobody else if it never had to listen.
func (c *Core) ForcedHere(record string, token int64) {
	c.end(record, token, func(*Hold) bool { return true })
}

// end ends the holds of a forced ownership that match.
func (c *Core) end(record string, token int64, match func(*Hold) bool) {
	var after effects
	c.mu.Lock()
	for _, h := range slices.Clone(c.schedule) {
		if h.Token == token && h.Keys.Record() == record && match(h) {
			c.lose(h, rules.Forced, &after)
		}
	}
	c.mu.Unlock()
	after.carryOut(c)
}

// Doubt takes in whom an answer of that time, by the server's clock, names as a lock's holder: nobody, if the server has
// forgotten. If that is not whoever of this process has it, that one renews its hold at once, and so comes back or learns
// that it is lost.
func (c *Core) Doubt(record, holder string, at lua.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[record]
	if h != nil && h.Doubted(holder, h.Ticket.Identity(), at, h.Since, h.Requests.Underway(), time.Now()) {
		c.watch(h)
	}
}

// Abandon gives back a hold that nobody has a Lease on.
func (c *Core) Abandon(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.State == rules.Held {
		c.letGo(h)
		c.Go(func() { c.release(context.Background(), h, 0) })
	}
}

// Lose ends a hold of which the server's word has come that it is no more.
func (c *Core) Lose(h *Hold, why rules.Why) {
	c.mu.Lock()
	var after effects
	c.lose(h, why, &after)
	c.mu.Unlock()
	after.carryOut(c)
}

// lose ends the trust in h. c.mu must be held; after is to be carried out once it is not.
func (c *Core) lose(h *Hold, why rules.Why, after *effects) {
	c.lost(h, why, causes[why], after)
}

// lost is lose for a reason with words of its own.
func (c *Core) lost(h *Hold, why rules.Why, words string, after *effects) {
	if h.State != rules.Held {
		return
	}
	leave := h.Lose(why, time.Now(), h.Requests.Open())
	h.release.err = &reason{ErrLost, words}
	after.end(h, ErrLost)
	after.lost = append(after.lost, loss{h, h.adopted, []any{
		"lock", h.Name, "owner", h.Ticket.Identity(), "note", h.Ticket.Note, "token", h.Token,
		"why", words, "since", h.Since.Time(), "lease", h.Ticket.Lease,
		"renewed", h.Term.Expires.Add(-h.Term.Span), "expires", h.Term.Expires, "depth", len(h.shares),
	}})
	c.forget(h)
	for _, s := range h.shares {
		s.unbind()
	}
	h.settle()
	c.unwatch(h)
	c.finish()
	if leave {
		c.Go(func() {
			c.takeBack(h)
			c.strategy.Forget(h)
		})
		return
	}
	after.gone = append(after.gone, h)
}

// takeBack leaves for a hold that is none any more, until that is answered or can no longer matter.
func (c *Core) takeBack(h *Hold) {
	c.Persist(h.Ticket.Lease, func(ctx context.Context) error {
		_, err := c.strategy.Release(ctx, h)
		return err
	})
}

// settle lets Adopt go on. c.mu must be held.
func (h *Hold) settle() {
	if h.ready != nil && !h.settled {
		h.settled = true
		close(h.ready)
	}
}

// forget takes h out of what can be re-entered. c.mu must be held.
func (c *Core) forget(h *Hold) {
	if c.holds[h.Keys.Record()] == h {
		delete(c.holds, h.Keys.Record())
	}
}

// finish counts a hold out. c.mu must be held.
func (c *Core) finish() {
	if c.count--; c.count == 0 && c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}

// live reports whether h can be re-entered.
func (h *Hold) live() bool {
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	return h.Live(time.Now())
}

// boundTo reports whether a Lease on h belongs to the goroutine. c.mu must be held.
func (h *Hold) boundTo(me goroutine) bool {
	if me == 0 || h.State != rules.Held {
		return false
	}
	for _, s := range h.shares {
		if s.goroutine == me {
			return true
		}
	}
	return false
}

// check is nil while h can be trusted, and else why not; a hold whose time has passed is lost here. c.mu must be held;
// after is to be carried out once it is not.
func (c *Core) check(h *Hold, after *effects) error {
	if h.Expires(time.Now()) {
		c.lose(h, rules.Expired, after)
	}
	switch lost := h.release.err; {
	case errors.Is(lost, ErrLost):
		return lost
	case h.State != rules.Held:
		return ErrNotHeld
	}
	return nil
}
