package reentrant

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// pauseAfterRefusal is the time from a refusal to the next try of the same call.
const pauseAfterRefusal = 5 * time.Millisecond

// call is one Lock or TryLock of a plain lock on its way. Each of its tries has a ticket of its
// own, used once.
type call struct {
	engine.Call
	away     <-chan struct{} // closed when the Locker no longer serves the call
	asked    time.Time       // what the call knows is no older than this; zero: it knows nothing
	answered bool            // by the server, or from what this process knows
	failure  error           // of the last request for the lock; nil: it was answered

	// Of a waiting call.
	may      chan struct{}     // holds one signal: the call may try
	passed   chan *engine.Turn // holds the turn that another call of this process passed on
	position int               // when the call joined; 0: not yet
	tried    time.Time         // when the try under way went out; zero: none is. Guarded by Locker.mu
}

// joins reports whether the call names the holder as its owner.
func (c *call) joins(w *waiters) bool {
	return w != nil && c.Request.Owner != "" && c.Request.Owner == w.owner
}

// outcome is what a try came to: exactly one of the first three.
type outcome struct {
	turn *engine.Turn
	held *engine.HeldError
	err  error

	// After an unanswered request: closed when its ticket certainly holds nothing, or no longer
	// matters.
	left <-chan struct{}
}

var errTimeUp = errors.New("the time to wait is up")

// Acquire tries and waits.
func (s strategy) Acquire(ctx context.Context, call engine.Call) (*engine.Turn, error) {
	c := s.begin(call)
	if c.Request.Wait > 0 {
		return s.core.Until(ctx, c.Began.Add(c.Request.Wait), errTimeUp, func(bounded context.Context) (*engine.Turn, error) {
			return s.pursue(bounded, ctx, c)
		})
	}
	return s.pursue(ctx, ctx, c)
}

// begin is the call on its way.
func (l *Locker) begin(c engine.Call) *call {
	away := l.draining
	if c.Within {
		away = l.closing
	}
	return &call{Call: c, away: away, answered: c.Request.Answered}
}

// pursue tries at once, unless that is known to be in vain, and then waits, until ctx ends. That is
// the caller's context or a bounded one.
func (l *Locker) pursue(ctx, caller context.Context, c *call) (*engine.Turn, error) {
	asked := time.Now()
	held, err := l.refuse(c)
	if err != nil {
		return nil, err
	}
	if held == nil {
		o := l.first(ctx, c)
		if o.turn != nil || o.err != nil && (ctx.Err() != nil || !l.patient(c, o.err)) {
			return o.turn, l.why(caller, ctx, c, o.err)
		}
		held = o.held
	}
	if c.Request.Wait == 0 {
		return nil, held
	}
	if held != nil {
		c.answered, c.asked = true, asked
	}
	turn, err := l.wait(ctx, caller, c, held)
	return turn, l.why(caller, ctx, c, err)
}

// refuse answers for a lock that is known to be held, without asking the server.
func (l *Locker) refuse(c *call) (*engine.HeldError, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(c.away) {
		return nil, engine.ErrClosed
	}
	w := l.waiters[c.Keys.Record()]
	if owner, expires, ours := l.core.Present(c.Keys.Record()); ours && owner != c.Request.Owner {
		return &engine.HeldError{Owner: owner, Remaining: time.Until(expires), Waiting: w.size(), Failure: w.lastFailure()}, nil
	}
	if w.busy() && !c.joins(w) {
		return w.known(), nil
	}
	return nil, nil
}

// first sends a call's first try. If a call that does not wait gets no answer, first repeats the
// try for a while, because pooled connections may have died. It waits until the ticket of the
// unanswered try has left: that ticket would otherwise be the holder that refuses the next try.
func (l *Locker) first(ctx context.Context, c *call) outcome {
	o := l.try(ctx, c)
	if o.left == nil || c.Request.Wait != 0 {
		return o
	}
	_, _ = l.core.Until(ctx, c.Began.Add(rules.InsistFor), context.DeadlineExceeded, func(ctx context.Context) (*engine.Turn, error) {
		for o.left != nil {
			select {
			case <-o.left:
				next := l.try(ctx, c)
				if next.err != nil && ctx.Err() != nil {
					next.err = o.err // that of the server, and not that our own time is up
				}
				o = next
			case <-ctx.Done():
				return nil, o.err
			}
		}
		return o.turn, o.err
	})
	return o
}

// wait tries whenever c may, until a try succeeds or c is passed a turn. held is the answer to the
// first try, or nil if there was none.
func (l *Locker) wait(ctx, caller context.Context, c *call, held *engine.HeldError) (turn *engine.Turn, err error) {
	w, err := l.join(c, held)
	if err != nil {
		return nil, err
	}
	defer func() { l.quit(w, c, turn) }() // however this ends: a callback may panic
	l.core.TellPosition(caller, &c.Call, c.position, true)
	l.stand(w, c)
	var failures engine.Backoff
	var pause time.Duration
	if held == nil {
		pause = failures.Next()
	}
	for {
		if turn, err := l.mayTry(ctx, w, c, pause); turn != nil || err != nil {
			return turn, err
		}
		o := l.tries(ctx, w, c)
		switch {
		case o.turn != nil:
			return o.turn, nil
		case o.held != nil:
			pause, failures = pauseAfterRefusal, engine.Backoff{}
			l.refused(w, o.held)
		case ctx.Err() == nil && !l.patient(c, o.err):
			return nil, o.err
		default:
			if pause = failures.Next(); ctx.Err() == nil && !lua.Ended(o.err) {
				l.failed(w, c)
			}
			signal(c.may)
		}
	}
}

// mayTry returns when c may try: after the pause, once c is signalled. It also returns when c is
// passed a turn.
func (l *Locker) mayTry(ctx context.Context, w *waiters, c *call, pause time.Duration) (*engine.Turn, error) {
	may := c.may
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		may, over = nil, timer.C
	}
	for {
		select {
		case turn := <-c.passed:
			return turn, nil
		case <-over:
			may = c.may
		case <-may:
			return nil, nil
		case <-ctx.Done():
			return nil, l.lastWord(w, c)
		case <-c.away:
			return nil, engine.ErrClosed
		}
	}
}

// patient reports whether a call goes on after an error.
func (l *Locker) patient(c *call, err error) bool {
	waits := c.answered || c.position > 0 // or its caller has been told that it waits
	return c.Request.Wait != 0 && !errors.Is(err, engine.ErrClosed) && rules.Patient(waits, err)
}

// why is the error for the caller: about the caller's own context if that has ended, else about
// what happened.
func (l *Locker) why(caller, ctx context.Context, c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case engine.HasEnded(caller):
		return &engine.WaitError{Position: c.position, Waited: time.Since(c.Began), Err: engine.EndOf(caller), Failure: c.failure}
	case ctx.Err() != nil && !errors.As(err, new(*engine.HeldError)):
		return &engine.WaitError{Position: c.position, Waited: time.Since(c.Began), Err: context.DeadlineExceeded, Failure: c.failure}
	}
	return err
}

// try sends one request, in the caller's own goroutine if the request is sure to come back soon. A
// call that waits is in no case kept by the request: it may be passed a turn meanwhile. If ctx ends
// first, or a turn is passed, a lock that the request brings is given back.
func (l *Locker) try(ctx context.Context, c *call) outcome {
	server := cmp.Or(c.Server, l.core.Server)
	if prompt, ok := l.core.Prompt(ctx, &c.Call); ok && c.passed == nil && c.Server == nil {
		l.core.Begun()
		defer l.core.Done()
		return c.learns(l.send(ctx, prompt, c))
	}
	answer, gone := make(chan outcome), make(chan struct{})
	leave := sync.OnceFunc(func() { close(gone) })
	defer leave()       // also if the user's context panics
	ended := ctx.Done() // before the goroutine: it may close the Locker, which waits for that
	l.core.Go(func() {
		o := outcome{err: lua.ErrCutShort} // unless send returns
		defer func() {
			select {
			case answer <- o:
			case <-gone:
				if o.turn != nil {
					l.core.Abandon(o.turn)
				}
			}
		}()
		o = l.send(context.WithoutCancel(ctx), server, c)
	})
	select {
	case o := <-answer:
		return c.learns(o)
	case turn := <-c.passed:
		return outcome{turn: turn}
	case <-ended:
		leave() // first: its Err may close the Locker, too
		return outcome{err: engine.EndOf(ctx)}
	case <-c.away:
		return outcome{err: engine.ErrClosed}
	}
}

func (c *call) learns(o outcome) outcome {
	c.answered = c.answered || o.err == nil
	if !lua.Ended(o.err) {
		c.failure = redact.Error(o.err)
	}
	return o
}

// try is a ticket of a plain lock. It is sent once.
type try struct {
	keys   lua.Keys
	ticket lua.Ticket
	rules.Waiter
}

// send sends a new ticket and handles the answer.
func (l *Locker) send(ctx context.Context, server *lua.Server, c *call) outcome {
	t := &try{keys: c.Keys, ticket: l.core.Ticket(&c.Request)}
	requests, sent := new(engine.Requests), time.Now()
	t.Waiter = rules.Waiter{Lease: t.ticket.Lease, Try: true, Began: sent}
	known, ok := l.enrol(c, t)
	if !ok {
		return outcome{err: engine.ErrClosed}
	}
	requests.Sent()
	returned := false
	defer func() {
		if !returned { // the user's context panicked, or ended the goroutine
			requests.Done(lua.ErrCutShort)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ended(t, t.GivesUp(requests.Open()), requests)
		}
	}()
	answer, err := server.Enter(ctx, c.Keys, lua.Enter{
		Try: true, Seen: known.Token, Spare: max(known.Lease, l.core.Settings.Lease), Replicas: c.Request.Replicas,
		Tickets: []lua.EnterTicket{{Ticket: t.ticket}},
	})
	returned = true
	requests.Done(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return outcome{err: err, left: l.ended(t, t.GivesUp(requests.Open()), requests)}
	}
	now := time.Now()
	l.memory.Note(c.Keys.Record(), rules.Known{Token: answer.Token, Lease: answer.Lease}, now)
	l.core.CheckHolder(c.Keys, answer.Holder, l.knows)
	l.core.Doubt(c.Keys.Record(), answer.Holder, answer.Now)
	step := t.Told(&answer.Tickets[0], answer.Token, rules.ClockPair{Sent: sent, At: answer.Now}, now, requests.Open())
	if engine.IsClosed(c.away) {
		step.Leave = step.Leave || step.Do == rules.Take
		l.ended(t, step, requests)
		return outcome{err: engine.ErrClosed}
	}
	if step.Do == rules.Take {
		grant := answer.Tickets[0].Grant
		if w := l.waiters[c.Keys.Record()]; w != nil {
			// Those in line that name this owner, too, would learn of it only when one is refused.
			w.learn(&engine.HeldError{Owner: t.ticket.Identity(), Remaining: step.Term.Ends.Sub(now)})
		}
		return outcome{turn: l.core.Keep(engine.Granted{
			Keys: c.Keys, Ticket: t.ticket, Token: grant.Token, Since: grant.Since, Requests: requests,
		}, l.run(c, answer.Tickets[0].Unused), step.Term, engine.For{
			Name: c.Name, Fixed: c.Request.Fixed, Copies: engine.NewCopies(c.Request.Replicas, answer.Confirmed),
		}, now)}
	}
	l.ended(t, step, requests)
	switch step.Why {
	case rules.Forced:
		return outcome{err: engine.LostTo(step.Why)}
	case rules.Refused:
		return outcome{held: &engine.HeldError{Owner: answer.Holder, Remaining: answer.Remaining, Waiting: l.waiters[c.Keys.Record()].size()}}
	case rules.TooLate:
		return outcome{held: &engine.HeldError{Owner: t.ticket.Identity(), Remaining: answer.Remaining}}
	default:
		return outcome{err: errors.New("the server says that this call has left already")}
	}
}

// enrol notes that a ticket is tried, and returns what is known of the lock. It is not ok if the
// Locker was closed since the call looked: Close may have returned, and waits for no such try.
func (l *Locker) enrol(c *call, t *try) (known rules.Known, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(c.away) {
		return known, false
	}
	l.known[t.ticket.Counter] = t
	return l.memory.Recall(c.Keys.Record(), t.Began), true
}

// ended forgets a ticket whose try has ended. If the server may have something of the ticket, the
// ticket leaves first, in the background; left is closed when it has left. l.mu must be held.
func (l *Locker) ended(t *try, s rules.Step, requests *engine.Requests) (left <-chan struct{}) {
	if s.Leave {
		return l.leave(t.keys, t.ticket, t.Leave(t.ticket, requests.Open()))
	}
	delete(l.known, t.ticket.Counter)
	return nil
}

// leave makes sure, in the background, that a ticket holds nothing, now or later.
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

// forget notes that no call knows the ticket any more.
func (l *Locker) forget(t lua.Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, t.Counter)
}

// heard handles what the server tells this client, which is only that ownerships were forced.
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
