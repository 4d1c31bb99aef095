package reentrant

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/lua"
)

// call is one Lock or TryLock of a plain lock on its way. Each of its tries is a ticket of its own, used once.
type call struct {
	name     string
	keys     lua.Keys
	request  Request
	within   bool // it was made under a live hold
	began    time.Time
	answered bool // the server, or what this process knows, has said something

	// Of one that waits, once it is in a room.
	turn chan struct{} // holds one: it may try
	away chan struct{} // closed when the Locker closes

	// Guarded by Locker.mu.
	calling  bool      // its OnQueued is running: it gets no turn
	missed   bool      // a turn, meanwhile
	sent     bool      // away is closed
	next     time.Time // no try before this
	failures Backoff
	position int // when it joined
}

// outcome is what a try came to: one of the three.
type outcome struct {
	hold *Hold
	held *HeldError
	err  error

	left <-chan struct{} // after an unanswered request: closed when its ticket holds nothing for certain, or no longer matters
}

var errTimeUp = errors.New("the time to wait is up")

// acquire is Lock, TryLock and the first half of Do.
func (l *Locker) acquire(ctx context.Context, op, name string, try bool, options []LockOption) (*Lease, error) {
	began := time.Now()
	lease, err := l.obtain(ctx, name, try, options)
	if err != nil {
		return nil, l.core.GaveUp(ctx, op, name, began, err)
	}
	return lease, nil
}

func (l *Locker) obtain(ctx context.Context, name string, try bool, options []LockOption) (*Lease, error) {
	request, keys, lease, err := l.core.Begin(ctx, name, try, options)
	if lease != nil || err != nil {
		return lease, err
	}
	return l.core.Insist(ctx, request, func(request Request) (*Lease, error) {
		c := &call{name: name, keys: keys, request: request, within: l.core.Keeper.Within(ctx), began: time.Now(), answered: request.Waited}
		hold, err := l.pursue(ctx, c)
		if err != nil {
			return nil, err
		}
		return l.core.Keeper.Adopt(ctx, hold, c.began, request.Wait)
	})
}

// pursue tries at once, unless it is known to be in vain, and then waits.
func (l *Locker) pursue(ctx context.Context, c *call) (*Hold, error) {
	caller := ctx
	if c.request.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.began.Add(c.request.Wait), errTimeUp)
		defer cancel()
	}
	asked := time.Now()
	held, err := l.refuse(c)
	if err != nil {
		return nil, err
	}
	if held == nil {
		o := l.first(ctx, c)
		if o.hold != nil || o.err != nil && (ctx.Err() != nil || !l.patient(c, o.err)) {
			return o.hold, l.why(caller, ctx, c, o.err)
		}
		held = o.held
	}
	if c.request.Wait == 0 {
		return nil, held
	}
	c.answered = c.answered || held != nil
	r, err := l.join(c, asked, held)
	if err != nil {
		return nil, err
	}
	defer l.quit(r, c) // however this ends: a callback may panic
	l.core.Waits(caller, c.name, c.request.Owner, c.request, c.position, true)
	l.returned(r, c)
	for {
		select {
		case <-c.turn:
			o := l.try(ctx, c)
			l.tried(r, c, o)
			if o.hold != nil {
				return o.hold, nil
			}
			if o.err != nil && ctx.Err() == nil && !l.patient(c, o.err) {
				return nil, o.err
			}
		case <-ctx.Done():
			return nil, l.why(caller, ctx, c, l.giveUp(r, c))
		case <-c.away:
			return nil, ErrClosed
		}
	}
}

// refuse is the answer of a lock that is known to be held, or not to be for this call, without asking the server.
func (l *Locker) refuse(c *call) (*HeldError, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.draining && !c.within {
		return nil, ErrClosed
	}
	r := l.rooms[c.keys.Record()]
	if owner, expires, ours := l.core.Keeper.Present(c.keys.Record()); ours {
		return &HeldError{Owner: owner, Remaining: time.Until(expires), Waiting: r.size()}, nil
	}
	if r.starves() && !c.kin(r) {
		return r.known(), nil
	}
	return nil, nil
}

// first is a call's first try. That of one that does not wait is repeated for a while if it goes unanswered: pooled
// connections may have died. The ticket before must be gone by then, or it would be what has the lock.
func (l *Locker) first(ctx context.Context, c *call) outcome {
	o := l.try(ctx, c)
	if o.left == nil || c.request.Wait != 0 {
		return o
	}
	ctx, cancel := context.WithDeadline(ctx, c.began.Add(InsistFor))
	defer cancel()
	for o.left != nil {
		select {
		case <-o.left:
			o = l.try(ctx, c)
		case <-ctx.Done():
			return o
		}
	}
	return o
}

// patient reports whether a call goes on after an error.
func (l *Locker) patient(c *call, err error) bool {
	waits := c.answered || c.position > 0 // or it has been told that it does
	return c.request.Wait != 0 && !errors.Is(err, ErrClosed) && Patient(waits, err)
}

// why is what the caller is told: of its own context if that has ended, else what happened.
func (l *Locker) why(caller, ctx context.Context, c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		return &WaitError{Position: c.position, Waited: time.Since(c.began), Err: EndOf(caller)}
	case ctx.Err() != nil && !errors.As(err, new(*HeldError)):
		return &WaitError{Position: c.position, Waited: time.Since(c.began), Err: context.DeadlineExceeded}
	}
	return err
}

// giveUp ends c's waiting and returns what was last heard of the holder, if anything was.
func (l *Locker) giveUp(r *room, c *call) error {
	l.quit(r, c)
	if !c.answered {
		return errTimeUp
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.known()
}

// try sends one request, in the caller's own goroutine if that is sure to come back soon. Should ctx end first, what it
// brings is given back.
func (l *Locker) try(ctx context.Context, c *call) outcome {
	if prompt, ok := l.core.Prompt(ctx, c.request); ok {
		l.core.Keeper.Begun()
		defer l.core.Keeper.Done()
		return c.learns(l.send(prompt, c))
	}
	answer, gone := make(chan outcome), make(chan struct{})
	l.core.Keeper.Go(func() {
		o := l.send(context.WithoutCancel(ctx), c)
		select {
		case answer <- o:
		case <-gone:
			if o.hold != nil {
				l.core.Keeper.Abandon(o.hold)
			}
		}
	})
	select {
	case o := <-answer:
		return c.learns(o)
	case <-ctx.Done():
		close(gone)
		return outcome{err: EndOf(ctx)}
	case <-c.away:
		close(gone)
		return outcome{err: ErrClosed}
	}
}

func (c *call) learns(o outcome) outcome {
	c.answered = c.answered || o.err == nil || lua.Answered(o.err)
	return o
}

// send sends a new ticket and takes in what becomes of it.
func (l *Locker) send(ctx context.Context, c *call) outcome {
	t := l.core.Ticket(c.request)
	g := Granted{
		Name: c.name, Keys: c.keys, Ticket: t, Text: t.String(),
		Requests: new(Requests),
	}
	l.mu.Lock()
	seen, lease := l.memory.Recall(c.keys.Record())
	l.known[t.Counter] = struct{}{}
	l.mu.Unlock()
	g.Requests.Sent()
	sent := time.Now()
	answer, err := l.core.Server.Enter(ctx, c.keys, lua.Enter{
		Try: true, Seen: seen, Lease: max(lease, l.core.Settings.Lease), Replicas: c.request.Replicas,
		Tickets: []lua.EnterTicket{{Ticket: g.Text}},
	})
	g.Requests.Done(err)
	if err != nil {
		if lua.Unanswered(err) {
			return outcome{err: err, left: l.retire(c.keys, t, 0)}
		}
		l.forget(t)
		return outcome{err: err}
	}
	l.mu.Lock()
	l.memory.Note(c.keys.Record(), answer.Token, answer.Lease)
	refused := l.closed || l.draining && !c.within
	waiting := l.rooms[c.keys.Record()].size()
	if answer.Tickets[0].Status != lua.Granted {
		delete(l.known, t.Counter)
	}
	l.mu.Unlock()
	l.suspect(c.keys, answer.Holder)
	l.core.Keeper.Doubt(c.keys.Record(), answer.Holder, answer.Now)
	switch state := answer.Tickets[0]; state.Status {
	case lua.Granted:
		g.Token, g.Since, g.Copies = state.Grant.Token, state.Grant.Since, NewCopies(c.request.Replicas, answer.Confirmed)
		term := Term{t.Lease, sent.Add(state.Grant.Remaining)}
		if refused || !term.TrustEnds().After(time.Now()) {
			l.retire(c.keys, t, g.Token)
			break
		}
		return outcome{hold: l.core.Keeper.Begin(g, term, c.request.Fixed)}
	case lua.Held:
		if !refused {
			return outcome{held: &HeldError{Owner: answer.Holder, Remaining: answer.Remaining, Waiting: waiting}}
		}
	default:
		return outcome{err: errors.New("the server says that this call has left already")}
	}
	if refused {
		return outcome{err: ErrClosed}
	}
	return outcome{held: &HeldError{Owner: t.Identity()}} // it came too late to be of use
}

// retire sees to it in the background that a ticket holds nothing, now or later: one that was
// given a token, or, if that is 0, one of which a request may yet be executed.
func (l *Locker) retire(keys lua.Keys, t lua.Ticket, token int64) (left <-chan struct{}) {
	done := make(chan struct{})
	leave := []lua.LeaveTicket{{Ticket: t.String(), Token: token, Retire: token == 0}}
	l.core.Keeper.Go(func() {
		defer close(done)
		l.core.Keeper.Persist(t.Lease, func(ctx context.Context) error {
			_, err := l.core.Server.Leave(ctx, keys, leave)
			return err
		})
		l.forget(t)
	})
	return done
}

// forget says that no call knows the ticket any more.
func (l *Locker) forget(t lua.Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, t.Counter)
}

// knows reports whether a call knows the ticket with that counter.
func (l *Locker) knows(counter uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.known[counter]
	return known
}

// suspect gives a lock back that an answer says to be a ticket's of ours that no call knows.
func (l *Locker) suspect(keys lua.Keys, holder string) {
	if counter, ours := l.core.Own(holder); !ours || l.knows(counter) || !l.core.Suspicious(keys) {
		return
	}
	l.core.Keeper.Go(func() {
		for _, t := range l.core.Strays(keys, l.knows) {
			l.retire(keys, t, 0)
		}
	})
}
