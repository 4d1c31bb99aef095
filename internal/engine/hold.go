package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Granted is what the server gave to a call.
type Granted struct {
	Keys     lua.Keys
	Ticket   lua.Ticket // which the record names
	Token    int64      // of the record
	Since    lua.Micros
	Requests *Requests // of the ticket
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

// Hold is one ticket's part in an ownership, as the server knows it: usually the whole of it; with
// WithOwner each process has a Hold of its own. The fields of Granted do not change. Those of
// rules.Hold do, under Core.mu, until the release begins.
type Hold struct {
	Granted
	core *Core
	// nil, or closed when a fixed lease's claim has become the lease, or was lost
	ready chan struct{}

	// Guarded by core.mu.
	rules.Hold
	isReady bool   // ready is closed
	index   int32  // in the schedule; -1: not in it
	next    *Hold  // in Core.watched: an earlier hold of the lock; usually nil
	turn    *Turn  // that has the lock, or had it last
	run     *run   // nil: no other ticket may have a turn. The pointer does not change
	counted *count // the latest count of votes that was heard of; nil: there was none

	first Turn // room for what every hold has
}

// Keep puts a hold that was granted by now under the watchdog, and begins its first turn. A fixed
// lease is not renewed. The turn has no Lease yet: Adopt or Abandon must follow.
func (c *Core) Keep(g Granted, r Run, t rules.Term, f For, now time.Time) *Turn {
	h := &Hold{Granted: g, core: c, index: -1, Hold: rules.Begin(t, g.Ticket.Lease, f.Fixed, now)}
	if f.Fixed && h.Claimed() {
		h.ready = make(chan struct{})
	}
	if r.Turns > 0 {
		h.run = &run{Run: r}
	}
	h.turn = &h.first
	h.first.For, h.first.Ticket, h.first.Token, h.first.hold = f, &h.Ticket, g.Token-int64(r.Turns), h
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.watch(h)
	return h.turn
}

// Present returns the owner in this process that is sure to have the lock now. expires is when the
// hold ends at the latest unless it is renewed.
func (c *Core) Present(record string) (owner string, expires time.Time, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.first(record, time.Now(), func(*Turn) bool { return true })
	if t == nil {
		return "", time.Time{}, false
	}
	return t.Ticket.Identity(), t.hold.Term.Ends, true
}

// Forced handles a message that an ownership was ended by force. Only the hold of the message's
// ticket ends: this process may have the lock again by now.
func (c *Core) Forced(m lua.Message) {
	c.ForcedHere(m.Record, func(h *Hold) bool { return h.Token == m.Token && h.Ticket == m.Ticket })
}

// ForcedHere handles that this process has ended an ownership by force: the holds that match are of
// it. If this process never had to listen, nobody else tells its holders.
func (c *Core) ForcedHere(record string, match func(*Hold) bool) {
	var after effects
	c.mu.Lock()
	for _, h := range slices.Clone(c.schedule) {
		if h.Keys.Record() == record && match(h) {
			c.lose(h, rules.Forced, &after)
		}
	}
	c.mu.Unlock()
	after.carryOut(c)
}

// Doubt handles the name of a lock's holder in an answer; at is the time of the answer by the
// server's clock. The name is empty if the server has forgotten the holder. A hold of this process
// is renewed at once if the answer names another holder, unless it is in doubt already. The renewal
// puts the hold back, or says that the hold is lost.
func (c *Core) Doubt(record, holder string, at lua.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := c.watched[record]; h != nil; h = h.next { // also one that has no Lease at the moment
		if h.Doubted(holder, h.Ticket.Identity(), at, h.Since, time.Now()) {
			c.watch(h)
		}
	}
}

// Shorten ends the trust in a hold at that time, if it would end later: a count of the votes for it
// has said so, of that number.
func (c *Core) Shorten(h *Hold, trusted time.Time, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.counted != nil && number < h.counted.number {
		return // the later one knows better
	}
	h.counted = &count{number, trusted}
	if h.Shorten(trusted) {
		c.watch(h)
	}
}

// count is what a count of the votes for a hold has said: until when they are trusted. Later counts
// have larger numbers.
type count struct {
	number  uint64
	trusted time.Time
}

// recount takes back what an older count than the latest has said of a renewal. The core's mu must
// be held.
func (h *Hold) recount(number uint64) {
	if h.counted != nil && number < h.counted.number {
		h.Shorten(h.counted.trusted)
	}
}

// Lose ends a hold after the server has said that the hold is no more. The Locker's mutex must not
// be held, nor for Forced and ForcedHere: Strategy.Forget takes it.
func (c *Core) Lose(h *Hold, why rules.Why) {
	c.mu.Lock()
	var after effects
	if why == rules.Vanished {
		c.expire(h, &after) // the strategy may say so of what was trusted for too long
	}
	c.lose(h, why, &after)
	c.mu.Unlock()
	after.carryOut(c)
}

// Held reports whether h is held, and not lost or given back.
func (c *Core) Held(h *Hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.State == rules.Held
}

// lose ends the trust in h. c.mu must be held; the caller carries after out once it is not.
func (c *Core) lose(h *Hold, why rules.Why, after *effects) {
	c.loseFor(h, why, causes[why], h.Requests.Open(), after)
}

// loseFor is lose with words of its own for the reason. open says that the server may have the hold
// for longer than the lease.
func (c *Core) loseFor(h *Hold, why rules.Why, words string, open bool, after *effects) {
	if h.State != rules.Held {
		return
	}
	leave := h.Lose(why, time.Now(), open) || len(h.followers()) > 0
	turn, rest := h.turn, time.Duration(0)
	if len(turn.shares) > 0 && why == rules.Expired {
		rest = rules.Margin(h.Term.Span) + time.Millisecond // the lease has ended by then, as a rule
	}
	turn.release.err = &reason{ErrLost, words}
	after.end(turn, ErrLost)
	adopted := turn.adopted
	if turn.over { // it was about to be passed on: its Unlock waits for the outcome
		c.settle(turn, turn.release.err)
		adopted = nil
	}
	after.lost = append(after.lost, loss{turn, adopted, []any{
		"lock", turn.Name, "owner", turn.Ticket.Identity(), "note", turn.Ticket.Note, "token", turn.Token,
		"why", words, "since", h.Since.Time(), "lease", h.Ticket.Lease,
		"renewed", h.Term.Ends.Add(-h.Term.Span), "expires", h.Term.Ends, "depth", len(turn.shares),
	}})
	c.forget(turn)
	for _, s := range turn.shares {
		s.unbind()
	}
	h.makeReady()
	c.unwatch(h)
	if leave || rest > 0 {
		c.Begun() // now: a Close that comes between waits for it
		after.leaves = append(after.leaves, departure{h, rest, leave})
	} else {
		after.gone = append(after.gone, h)
	}
	if rest == 0 { // else the user may still be stopping
		c.finish()
	}
}

// rest returns after a holder's margin, or when the Locker is closed, and counts the hold out.
func (c *Core) rest(d time.Duration) {
	if d == 0 {
		return
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finish()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.stop:
	}
}

// takeBack sends the leave of a lost hold, until the leave is answered or can no longer matter.
func (c *Core) takeBack(h *Hold) {
	c.Persist(h.Longest, func(ctx context.Context) error {
		_, err := c.strategy.Release(ctx, c.Server, h)
		return err
	})
}

// makeReady lets Adopt go on. c.mu must be held.
func (h *Hold) makeReady() {
	if h.ready != nil && !h.isReady {
		h.isReady = true
		close(h.ready)
	}
}

// finish counts a hold out. c.mu must be held.
func (c *Core) finish() {
	if c.count--; c.count == 0 && c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}
