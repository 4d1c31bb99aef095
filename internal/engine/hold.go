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
	Copies   *Copies // nil: none are needed
}

// Copies are the confirmations of replicas that a call needs before it has the lock.
type Copies struct {
	Need lua.Replicas
	Have *lua.Confirmed // by the request that brought the grant; nil if the request did not ask
}

// NewCopies returns nil if no replicas are needed.
func NewCopies(need lua.Replicas, have *lua.Confirmed) *Copies {
	if !need.Asked() {
		return nil
	}
	return &Copies{need, have}
}

// Hold is one ticket's part in an ownership: usually the whole of it; with WithOwner each process
// has a Hold of its own. The exported fields are those of its grant and do not change.
type Hold struct {
	Granted
	core *Core
	// nil, or closed when a fixed lease's claim has become the lease, or was lost
	ready chan struct{}

	// Guarded by core.mu.
	rules.Hold
	settled bool      // ready is closed
	index   int32     // in the schedule; -1: not in it
	shares  []*share  // of the Leases that have not ended
	release release   // or how the hold was lost
	adopted *adoption // for the observer; nil: no observer, or no Lease yet

	// Room for what a hold usually has only one of.
	first share
	only  [1]*share
}

// adoption is how a hold got its first Lease.
type adoption struct {
	at  time.Time
	ctx context.Context // of that Lease
}

// Keep puts a granted hold under the watchdog. A fixed lease is not renewed. The hold has no Lease
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

// Adopt gives the first Lease on h. If h is still the claim of a fixed lease, the claim is
// confirmed first. If the call asks for replicas, they must have the lock. If either fails, the
// hold is lost or given back; if ctx ends meanwhile, it is given back. The call has waited since
// began, and may wait for wait in all; zero or less is as long as it takes.
//
// A Lease that Adopt returns was given before the Locker was closed. In every other case the hold
// is given back, also after a panic in the user's context.
func (c *Core) Adopt(ctx context.Context, h *Hold, began time.Time, wait time.Duration) (lease *Lease, err error) {
	if h.ready != nil || h.Copies != nil { // may take a while: Close waits for the outcome
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

// confirmed returns nil when the claim has become the fixed lease, or was lost. On an error the
// caller gives h back.
func (c *Core) confirmed(ctx context.Context, h *Hold, began time.Time, wait time.Duration) error {
	select {
	case <-h.ready: // a callback may have kept the call past its wait
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
	case <-c.stop: // the watchdog no longer asks for the confirmation
		return ErrClosed
	}
}

// waited is the error of a call whose context ended after the grant and before the Lease.
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

// Present returns the owner in this process that is sure to have the lock now. expires is when the
// hold ends at the latest unless it is renewed.
func (c *Core) Present(record string) (owner string, expires time.Time, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[record]
	if h == nil || rules.Passed(h.TrustEnds, time.Now()) {
		return "", time.Time{}, false
	}
	return h.Ticket.Identity(), h.Term.Ends, true
}

// Forced handles a message that an ownership was ended by force. Only the hold of the message's
// ticket ends: this process may have the lock again by now.
func (c *Core) Forced(m lua.Message) {
	c.end(m.Record, m.Token, func(h *Hold) bool { return h.Ticket == m.Ticket })
}

// ForcedHere handles that this process has ended an ownership by force. If this process never had
// to listen, nobody else tells its holders.
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

// Doubt handles the name of a lock's holder in an answer; at is the time of the answer by the
// server's clock. The name is empty if the server has forgotten the holder. If this process has a
// hold and the answer names another holder, the hold is renewed at once. The renewal puts the hold
// back, or says that the hold is lost.
func (c *Core) Doubt(record, holder string, at lua.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[record]
	if h != nil && h.Doubted(holder, h.Ticket.Identity(), at, h.Since, h.Requests.Underway(), time.Now()) {
		c.watch(h)
	}
}

// Abandon gives back a hold without Leases.
func (c *Core) Abandon(h *Hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.State == rules.Held {
		c.beginRelease(h)
		c.Go(func() { c.release(context.Background(), h, 0) })
	}
}

// Lose ends a hold after the server has said that the hold is no more.
func (c *Core) Lose(h *Hold, why rules.Why) {
	c.mu.Lock()
	var after effects
	c.lose(h, why, &after)
	c.mu.Unlock()
	after.carryOut(c)
}

// lose ends the trust in h. c.mu must be held; the caller carries after out once it is not.
func (c *Core) lose(h *Hold, why rules.Why, after *effects) {
	c.lost(h, why, causes[why], after)
}

// lost is lose with words of its own for the reason.
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
		"renewed", h.Term.Ends.Add(-h.Term.Span), "expires", h.Term.Ends, "depth", len(h.shares),
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

// takeBack sends the leave of a lost hold, until the leave is answered or can no longer matter.
func (c *Core) takeBack(h *Hold) {
	c.Persist(h.Ticket.Lease, func(ctx context.Context) error {
		_, err := c.strategy.Release(ctx, c.Server, h)
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

// forget takes h out of the holds that can be re-entered. c.mu must be held.
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

// check returns nil while h can be trusted, and else the reason why not. A hold whose time has
// passed is lost here. c.mu must be held; the caller carries after out once it is not.
func (c *Core) check(h *Hold, after *effects) error {
	if h.TrustOver(time.Now()) {
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
