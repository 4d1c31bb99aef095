package reentrant

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/internal/rules"
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
	ctx, cancel := context.WithDeadline(ctx, c.began.Add(rules.InsistFor))
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
	return c.request.Wait != 0 && !errors.Is(err, ErrClosed) && rules.Patient(waits, err)
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

// try is a ticket of a plain lock, which is sent once.
type try struct {
	keys   lua.Keys
	ticket lua.Ticket
	text   string // on the wire
	rules.Waiter
}

// send sends a new ticket and takes in what becomes of it.
func (l *Locker) send(ctx context.Context, c *call) outcome {
	t := &try{keys: c.keys, ticket: l.core.Ticket(c.request)}
	t.text = t.ticket.String()
	t.Waiter = rules.Waiter{Lease: t.ticket.Lease, Try: true, Began: time.Now()}
	requests := new(Requests)
	l.mu.Lock()
	known := l.memory.Recall(c.keys.Record(), time.Now())
	l.known[t.ticket.Counter] = t
	l.mu.Unlock()
	requests.Sent()
	sent := time.Now()
	answer, err := l.core.Server.Enter(ctx, c.keys, lua.Enter{
		Try: true, Seen: known.Token, Lease: max(known.Lease, l.core.Settings.Lease), Replicas: c.request.Replicas,
		Tickets: []lua.EnterTicket{{Ticket: t.text}},
	})
	requests.Done(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return outcome{err: err, left: l.ended(t, t.GivesUp(requests.Open()), requests)}
	}
	l.memory.Note(c.keys.Record(), rules.Known{Token: answer.Token, Lease: answer.Lease}, time.Now())
	l.suspect(c.keys, answer.Holder)
	l.core.Keeper.Doubt(c.keys.Record(), answer.Holder, answer.Now)
	step := t.Told(&answer.Tickets[0], answer.Token, rules.Sighting{Sent: sent, At: answer.Now}, time.Now(), requests.Open())
	if l.closed || l.draining && !c.within {
		step.Leave = step.Leave || step.Do == rules.Take
		l.ended(t, step, requests)
		return outcome{err: ErrClosed}
	}
	if step.Do == rules.Take {
		grant := answer.Tickets[0].Grant
		return outcome{hold: l.core.Keeper.Begin(Granted{
			Name: c.name, Keys: c.keys, Ticket: t.ticket, Text: t.text, Token: grant.Token, Since: grant.Since,
			Requests: requests, Copies: NewCopies(c.request.Replicas, answer.Confirmed),
		}, step.Term, c.request.Fixed)}
	}
	l.ended(t, step, requests)
	switch step.Why {
	case rules.Forced:
		return outcome{err: LostTo(step.Why)}
	case rules.Refused:
		return outcome{held: &HeldError{Owner: answer.Holder, Remaining: answer.Remaining, Waiting: l.rooms[c.keys.Record()].size()}}
	case rules.TooLate:
		return outcome{held: &HeldError{Owner: t.ticket.Identity()}}
	default:
		return outcome{err: errors.New("the server says that this call has left already")}
	}
}

// ended forgets a ticket whose try has ended. Something of it may be with the server: then it
// leaves first, in the background, and left is closed when it has. l.mu must be held.
func (l *Locker) ended(t *try, s rules.Step, requests *Requests) (left <-chan struct{}) {
	if s.Leave {
		return l.leave(t.keys, t.ticket, t.Leave(t.text, requests.Open()))
	}
	delete(l.known, t.ticket.Counter)
	return nil
}

// leave sees to it in the background that a ticket holds nothing, now or later.
func (l *Locker) leave(keys lua.Keys, t lua.Ticket, leave lua.LeaveTicket) (left <-chan struct{}) {
	done := make(chan struct{})
	l.core.Keeper.Go(func() {
		defer close(done)
		l.core.Keeper.Persist(t.Lease, func(ctx context.Context) error {
			_, err := l.core.Server.Leave(ctx, keys, []lua.LeaveTicket{leave})
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

// heard takes in what the server tells this client: nothing but that ownerships were forced.
func (l *Locker) heard(payload string) {
	m, _, err := l.core.Message(payload)
	if err != nil || !m.Forced {
		return
	}
	l.mu.Lock()
	if t := l.known[m.Ticket.Counter]; t != nil && rules.Concerns(m.Record, m.Text, t.keys.Record(), t.text) {
		t.Heard(&m, time.Now(), 0, false) // the answer that grants it may be on its way
	}
	l.mu.Unlock()
	l.core.Keeper.Forced(m)
}

// knows reports whether a call knows the ticket with that counter.
func (l *Locker) knows(counter uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[counter] != nil
}

// suspect gives a lock back that an answer says to be a ticket's of ours that no call knows. l.mu
// must be held.
func (l *Locker) suspect(keys lua.Keys, holder string) {
	counter, ours := l.core.Own(holder)
	if !ours || l.known[counter] != nil || !l.core.Suspicious(keys) {
		return
	}
	l.core.Keeper.Go(func() {
		for _, t := range l.core.Strays(keys, l.knows) {
			l.leave(keys, t, rules.Unknown(t.String()))
		}
	})
}
