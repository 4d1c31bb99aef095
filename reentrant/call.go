package reentrant

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// pauseAfterRefusal is between the answer to a try and the next try of the same call.
const pauseAfterRefusal = 5 * time.Millisecond

// call is one Lock or TryLock of a plain lock on its way. Each of its tries is a ticket of its own,
// used once.
type call struct {
	engine.Call
	away     <-chan struct{} // closed when the Locker serves it no longer
	asked    time.Time       // before what it knows was true; zero: it knows nothing
	answered bool            // the server, or what this process knows, has said something

	// Of one that waits.
	turn     chan struct{} // holds one: it may try
	position int           // when it joined; 0: it has not
}

// joins reports whether the call has the holder's name.
func (c *call) joins(w *waiters) bool {
	return w != nil && c.Request.Owner != "" && c.Request.Owner == w.owner
}

// outcome is what a try came to: one of the three.
type outcome struct {
	hold *engine.Hold
	held *engine.HeldError
	err  error

	left <-chan struct{} // after an unanswered request: closed when its ticket holds nothing for certain, or no longer matters
}

var errTimeUp = errors.New("the time to wait is up")

// Acquire tries and waits.
func (s strategy) Acquire(ctx context.Context, call engine.Call) (*engine.Hold, error) {
	return s.pursue(ctx, s.begin(call))
}

// begin is the call on its way.
func (l *Locker) begin(c engine.Call) *call {
	away := l.draining
	if c.Within {
		away = l.closing
	}
	return &call{Call: c, away: away, answered: c.Request.Waited}
}

// pursue tries at once, unless it is known to be in vain, and then waits.
func (l *Locker) pursue(ctx context.Context, c *call) (*engine.Hold, error) {
	caller := ctx
	if c.Request.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.Began.Add(c.Request.Wait), errTimeUp)
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
	if c.Request.Wait == 0 {
		return nil, held
	}
	if held != nil {
		c.answered, c.asked = true, asked
	}
	hold, err := l.wait(ctx, caller, c, held)
	return hold, l.why(caller, ctx, c, err)
}

// refuse is the answer of a lock that is known to be held, without asking the server.
func (l *Locker) refuse(c *call) (*engine.HeldError, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(c.away) {
		return nil, engine.ErrClosed
	}
	w := l.waiters[c.Keys.Record()]
	if owner, expires, ours := l.core.Present(c.Keys.Record()); ours {
		return &engine.HeldError{Owner: owner, Remaining: time.Until(expires), Waiting: w.size()}, nil
	}
	if w.busy() && !c.joins(w) {
		return w.known(), nil
	}
	return nil, nil
}

// first is a call's first try. That of one that does not wait is repeated for a while if it goes
// unanswered: pooled connections may have died. The ticket before must be gone by then, or it would
// be what has the lock.
func (l *Locker) first(ctx context.Context, c *call) outcome {
	o := l.try(ctx, c)
	if o.left == nil || c.Request.Wait != 0 {
		return o
	}
	ctx, cancel := context.WithDeadline(ctx, c.Began.Add(rules.InsistFor))
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

// wait tries whenever it is c's turn. held is what the first try was answered, if it was.
func (l *Locker) wait(ctx, caller context.Context, c *call, held *engine.HeldError) (hold *engine.Hold, err error) {
	w, err := l.join(c, held)
	if err != nil {
		return nil, err
	}
	defer func() { l.quit(w, c, hold != nil) }() // however this ends: a callback may panic
	l.core.Waits(caller, c.Name, c.Request.Owner, c.Request, c.position, true)
	l.stand(w, c)
	var failures engine.Backoff
	var pause time.Duration
	if held == nil {
		pause = failures.Next()
	}
	for {
		if err := l.myTurn(ctx, w, c, pause); err != nil {
			return nil, err
		}
		o := l.try(ctx, c)
		switch {
		case o.hold != nil:
			return o.hold, nil
		case o.held != nil:
			pause = pauseAfterRefusal
			l.refused(w, o.held)
		case ctx.Err() == nil && !l.patient(c, o.err):
			return nil, o.err
		default:
			pause = failures.Next()
			signal(c.turn)
		}
	}
}

// myTurn returns when c may try: after the pause, and when it is told to.
func (l *Locker) myTurn(ctx context.Context, w *waiters, c *call, pause time.Duration) error {
	over := time.NewTimer(pause)
	defer over.Stop()
	var turn <-chan struct{}
	for {
		select {
		case <-over.C:
			turn = c.turn
		case <-turn:
			return nil
		case <-ctx.Done():
			return l.lastWord(w, c)
		case <-c.away:
			return engine.ErrClosed
		}
	}
}

// lastWord is what was last heard of the holder, if anything was.
func (l *Locker) lastWord(w *waiters, c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.answered && !w.heard {
		return errTimeUp
	}
	return w.known()
}

// patient reports whether a call goes on after an error.
func (l *Locker) patient(c *call, err error) bool {
	waits := c.answered || c.position > 0 // or it has been told that it does
	return c.Request.Wait != 0 && !errors.Is(err, engine.ErrClosed) && rules.Patient(waits, err)
}

// why is what the caller is told: of its own context if that has ended, else what happened.
func (l *Locker) why(caller, ctx context.Context, c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		return &engine.WaitError{Position: c.position, Waited: time.Since(c.Began), Err: engine.EndOf(caller)}
	case ctx.Err() != nil && !errors.As(err, new(*engine.HeldError)):
		return &engine.WaitError{Position: c.position, Waited: time.Since(c.Began), Err: context.DeadlineExceeded}
	}
	return err
}

// try sends one request, in the caller's own goroutine if that is sure to come back soon. Should ctx end first, what it
// brings is given back.
func (l *Locker) try(ctx context.Context, c *call) outcome {
	if prompt, ok := l.core.Prompt(ctx, c.Request); ok {
		l.core.Begun()
		defer l.core.Done()
		return c.learns(l.send(prompt, c))
	}
	answer, gone := make(chan outcome), make(chan struct{})
	l.core.Go(func() {
		o := l.send(context.WithoutCancel(ctx), c)
		select {
		case answer <- o:
		case <-gone:
			if o.hold != nil {
				l.core.Abandon(o.hold)
			}
		}
	})
	select {
	case o := <-answer:
		return c.learns(o)
	case <-ctx.Done():
		close(gone)
		return outcome{err: engine.EndOf(ctx)}
	case <-c.away:
		close(gone)
		return outcome{err: engine.ErrClosed}
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
	rules.Waiter
}

// send sends a new ticket and takes in what becomes of it.
func (l *Locker) send(ctx context.Context, c *call) outcome {
	t := &try{keys: c.Keys, ticket: l.core.Ticket(c.Request)}
	t.Waiter = rules.Waiter{Lease: t.ticket.Lease, Try: true, Began: time.Now()}
	requests := new(engine.Requests)
	l.mu.Lock()
	known := l.memory.Recall(c.Keys.Record(), time.Now())
	l.known[t.ticket.Counter] = t
	l.mu.Unlock()
	requests.Sent()
	sent := time.Now()
	answer, err := l.core.Server.Enter(ctx, c.Keys, lua.Enter{
		Try: true, Seen: known.Token, Lease: max(known.Lease, l.core.Settings.Lease), Replicas: c.Request.Replicas,
		Tickets: []lua.EnterTicket{{Ticket: t.ticket}},
	})
	requests.Done(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return outcome{err: err, left: l.ended(t, t.GivesUp(requests.Open()), requests)}
	}
	l.memory.Note(c.Keys.Record(), rules.Known{Token: answer.Token, Lease: answer.Lease}, time.Now())
	l.checkHolder(c.Keys, answer.Holder)
	l.core.Doubt(c.Keys.Record(), answer.Holder, answer.Now)
	step := t.Told(&answer.Tickets[0], answer.Token, rules.Sighting{Sent: sent, At: answer.Now}, time.Now(), requests.Open())
	if isClosed(c.away) {
		step.Leave = step.Leave || step.Do == rules.Take
		l.ended(t, step, requests)
		return outcome{err: engine.ErrClosed}
	}
	if step.Do == rules.Take {
		grant := answer.Tickets[0].Grant
		return outcome{hold: l.core.Keep(engine.Granted{
			Name: c.Name, Keys: c.Keys, Ticket: t.ticket, Token: grant.Token, Since: grant.Since,
			Requests: requests, Copies: engine.NewCopies(c.Request.Replicas, answer.Confirmed),
		}, step.Term, c.Request.Fixed)}
	}
	l.ended(t, step, requests)
	switch step.Why {
	case rules.Forced:
		return outcome{err: engine.LostTo(step.Why)}
	case rules.Refused:
		return outcome{held: &engine.HeldError{Owner: answer.Holder, Remaining: answer.Remaining, Waiting: l.waiters[c.Keys.Record()].size()}}
	case rules.TooLate:
		return outcome{held: &engine.HeldError{Owner: t.ticket.Identity()}}
	default:
		return outcome{err: errors.New("the server says that this call has left already")}
	}
}

// ended forgets a ticket whose try has ended. Something of it may be with the server: then it
// leaves first, in the background, and left is closed when it has. l.mu must be held.
func (l *Locker) ended(t *try, s rules.Step, requests *engine.Requests) (left <-chan struct{}) {
	if s.Leave {
		return l.leave(t.keys, t.ticket, t.Leave(t.ticket, requests.Open()))
	}
	delete(l.known, t.ticket.Counter)
	return nil
}

// leave sees to it in the background that a ticket holds nothing, now or later.
func (l *Locker) leave(keys lua.Keys, t lua.Ticket, leave lua.LeaveTicket) (left <-chan struct{}) {
	done := make(chan struct{})
	l.core.Go(func() {
		defer close(done)
		l.core.Persist(t.Lease, func(ctx context.Context) error {
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
	if err != nil || m.News != lua.Forces {
		return
	}
	l.mu.Lock()
	if t := l.known[m.Ticket.Counter]; t != nil && rules.Concerns(m.Record, m.Ticket, t.keys.Record(), t.ticket) {
		t.Heard(&m, time.Now(), 0, false) // the answer that grants it may be on its way
	}
	l.mu.Unlock()
	l.core.Forced(m)
}

// knows reports whether a call knows the ticket with that counter.
func (l *Locker) knows(counter uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[counter] != nil
}

// checkHolder gives a lock back that an answer says to be a ticket's of ours that no call knows. l.mu
// must be held.
func (l *Locker) checkHolder(keys lua.Keys, holder string) {
	counter, ours := l.core.Own(holder)
	if !ours || l.known[counter] != nil || !l.core.LooksForStrays(keys) {
		return
	}
	l.core.Go(func() {
		for _, t := range l.core.Strays(keys, l.knows) {
			l.leave(keys, t, rules.Unknown(t))
		}
	})
}
