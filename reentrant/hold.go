package reentrant

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
	Text     string // the ticket on the wire
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
	keeper *Keeper
	ready  chan struct{} // nil, or closed when a fixed lease's claim has become that lease, or was lost

	// Guarded by keeper.mu.
	rules.Hold
	settled bool      // ready is closed
	index   int32     // in the schedule; -1 if it is not there
	grips   []*grip   // of the Leases that have not ended
	ending  release   // or how it was lost
	adopted *adoption // for the observer; nil if there is none, or it has had no Lease

	// Room for what a hold usually has one of.
	first grip
	only  [1]*grip
}

// adoption is how a hold got its first Lease.
type adoption struct {
	at  time.Time
	ctx context.Context // of that Lease
}

// Begin takes a grant into the watchdog's care; a fixed lease is not renewed. It has no Lease yet: Adopt or Abandon must follow.
func (k *Keeper) Begin(g Granted, t rules.Term, fixed bool) *Hold {
	h := &Hold{Granted: g, keeper: k, index: -1, Hold: rules.Begin(t, g.Ticket.Lease, fixed, time.Now())}
	if fixed && h.Claimed() {
		h.ready = make(chan struct{})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	k.watch(h)
	return h
}

// Adopt gives the first Lease on h. A fixed lease that is still a claim is confirmed first, and the replicas that the call
// asks for must have it; if that fails the hold is lost or given back, and if ctx ends meanwhile it is given back. The call
// has waited since began, and may do so for wait: below or at zero, for as long as it takes.
//
// A Lease that it returns was given before the Locker was closed. Whatever else happens, a panic
// in the user's context included, the hold is given back.
func (k *Keeper) Adopt(ctx context.Context, h *Hold, began time.Time, wait time.Duration) (lease *Lease, err error) {
	if h.ready != nil || h.Copies != nil { // it may take a while: Close waits for what comes of it
		k.Begun()
		defer k.Done()
	}
	defer func() {
		if lease == nil {
			k.Abandon(h)
		}
	}()
	if h.ready != nil {
		if err := k.confirmed(ctx, h, began, wait); err != nil {
			return nil, err
		}
	}
	if err := k.replicate(ctx, h); err != nil {
		if ctx.Err() != nil {
			err = waited(ctx, began)
		}
		return nil, err
	}
	return k.adopt(ctx, h, began)
}

// confirmed returns when the claim has become the fixed lease, or was lost; else h is given back.
func (k *Keeper) confirmed(ctx context.Context, h *Hold, began time.Time, wait time.Duration) error {
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
	case <-k.stop: // nobody asks for the confirmation any more
		return ErrClosed
	}
}

// waited is the error of a call whose context ended when it nearly had the lock.
func waited(ctx context.Context, began time.Time) error {
	return &WaitError{Waited: time.Since(began), Err: EndOf(ctx)}
}

func (k *Keeper) adopt(ctx context.Context, h *Hold, began time.Time) (*Lease, error) {
	values := detached(ctx)
	var over ending
	defer over.carryOut(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.check(h, &over); err != nil {
		return nil, err
	}
	if !h.Leasable(k.closed) {
		return nil, ErrClosed
	}
	k.holds[h.Keys.Record()] = h
	lease := k.grasp(values, h)
	if k.settings.Observer != nil {
		h.adopted = &adoption{time.Now(), lease.grip.ctx}
		k.settings.Observe(Event{
			Kind: Acquired, Context: lease.grip.ctx, Name: h.Name, Owner: h.Ticket.Identity(), Token: h.Token, Took: h.adopted.at.Sub(began),
		})
	}
	return lease, nil
}

// Present is who of this process can be sure to have a lock now, and until when at most if nobody renews it.
func (k *Keeper) Present(record string) (owner string, expires time.Time, held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.holds[record]
	if h == nil || rules.Passed(h.Trusted, time.Now()) {
		return "", time.Time{}, false
	}
	return h.Ticket.Identity(), h.Term.Expires, true
}

// Forced takes in a message that an ownership was ended by force. Its process may have the lock again by now.
func (k *Keeper) Forced(m lua.Message) {
	k.end(m.Record, m.Token, func(h *Hold) bool { return h.Text == m.Text })
}

// ForcedHere takes in that this process has ended an ownership by force: its own holders are told
// by nobody else if it never had to listen.
func (k *Keeper) ForcedHere(record string, token int64) {
	k.end(record, token, func(*Hold) bool { return true })
}

// end ends the holds of a forced ownership that match.
func (k *Keeper) end(record string, token int64, match func(*Hold) bool) {
	var over ending
	k.mu.Lock()
	for _, h := range slices.Clone(k.schedule) {
		if h.Token == token && h.Keys.Record() == record && match(h) {
			k.lose(h, rules.Forced, &over)
		}
	}
	k.mu.Unlock()
	over.carryOut(k)
}

// Doubt takes in whom an answer of that time, by the server's clock, names as a lock's holder: nobody, if the server has
// forgotten. If that is not whoever of this process has it, that one renews its hold at once, and so comes back or learns
// that it is lost.
func (k *Keeper) Doubt(record, holder string, at lua.Micros) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.holds[record]
	if h != nil && h.Doubted(holder, h.Ticket.Identity(), at, h.Since, h.Requests.Underway(), time.Now()) {
		k.watch(h)
	}
}

// Abandon gives back a hold that nobody has a Lease on.
func (k *Keeper) Abandon(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.State == rules.Held {
		k.letGo(h)
		k.Go(func() { k.release(context.Background(), h, 0) })
	}
}

// Lose ends a hold of which the server's word has come that it is no more.
func (k *Keeper) Lose(h *Hold, why rules.Why) {
	k.mu.Lock()
	var over ending
	k.lose(h, why, &over)
	k.mu.Unlock()
	over.carryOut(k)
}

// lose ends the trust in h. k.mu must be held; over is to be carried out after it is not.
func (k *Keeper) lose(h *Hold, why rules.Why, over *ending) {
	k.lost(h, why, causes[why], over)
}

// lost is lose for a reason with words of its own.
func (k *Keeper) lost(h *Hold, why rules.Why, words string, over *ending) {
	if h.State != rules.Held {
		return
	}
	leave := h.Lose(why, time.Now(), h.Requests.Open())
	h.ending.err = &reason{ErrLost, words}
	over.add(h, ErrLost)
	over.lost = append(over.lost, loss{h, h.adopted, []any{
		"lock", h.Name, "owner", h.Ticket.Identity(), "note", h.Ticket.Note, "token", h.Token,
		"why", words, "since", h.Since.Time(), "lease", h.Ticket.Lease,
		"renewed", h.Term.Expires.Add(-h.Term.Span), "expires", h.Term.Expires, "depth", len(h.grips),
	}})
	k.forget(h)
	for _, g := range h.grips {
		g.unbind()
	}
	h.settle()
	k.unwatch(h)
	k.finish()
	if leave {
		k.Go(func() {
			k.takeBack(h)
			k.releaser.Forget(h)
		})
		return
	}
	over.gone = append(over.gone, h)
}

// takeBack leaves for a hold that is none any more, until that is answered or can no longer matter.
func (k *Keeper) takeBack(h *Hold) {
	k.Persist(h.Ticket.Lease, func(ctx context.Context) error {
		_, err := k.releaser.Release(ctx, h)
		return err
	})
}

// settle lets Adopt go on. k.mu must be held.
func (h *Hold) settle() {
	if h.ready != nil && !h.settled {
		h.settled = true
		close(h.ready)
	}
}

// forget takes h out of what can be re-entered. k.mu must be held.
func (k *Keeper) forget(h *Hold) {
	if k.holds[h.Keys.Record()] == h {
		delete(k.holds, h.Keys.Record())
	}
}

// finish counts a hold out. k.mu must be held.
func (k *Keeper) finish() {
	if k.count--; k.count == 0 && k.drained != nil {
		close(k.drained)
		k.drained = nil
	}
}

// live reports whether h can be re-entered.
func (h *Hold) live() bool {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	return h.Live(time.Now())
}

// boundTo reports whether a Lease on h belongs to the goroutine. k.mu must be held.
func (h *Hold) boundTo(me goroutine) bool {
	if me == 0 || h.State != rules.Held {
		return false
	}
	for _, g := range h.grips {
		if g.goroutine == me {
			return true
		}
	}
	return false
}

// check is nil while h can be trusted, and else why not; a hold whose time has passed is lost here. k.mu must be held;
// over is to be carried out after it is not.
func (k *Keeper) check(h *Hold, over *ending) error {
	if h.Expires(time.Now()) {
		k.lose(h, rules.Expired, over)
	}
	switch lost := h.ending.err; {
	case errors.Is(lost, ErrLost):
		return lost
	case h.State != rules.Held:
		return ErrNotHeld
	}
	return nil
}
