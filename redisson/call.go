package redisson

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// call is one Lock or TryLock on its way. It is an owner of its own, whose name is used once: so a
// request that is executed twice does no more than once.
type call struct {
	engine.Call
	ticket   lua.Ticket
	requests *engine.Requests
	away     <-chan struct{} // closed when the Locker no longer serves the call
	may      chan struct{}   // holds one signal: the call may ask
	answered bool            // by the server
	failure  error           // of the last request of its own; nil: it was answered
	last     answer          // the last one that said something of the holder
	at       time.Time       // when that came
	named    time.Time       // when one last named the holder
	position int             // in line, when the call joined; 0: not yet
	failures engine.Backoff

	// Guarded by Locker.mu.
	asks   bool   // a request is under way
	traces bool   // the server may have something of the call
	joined bool   // the call is in its line
	over   bool   // the call no longer asks: it has the lock, or has left
	forget func() // ends the call's subscription; nil: there is none
}

func (c *call) owner() string { return c.ticket.ID() }

// signal lets the call ask.
func (c *call) signal() {
	select {
	case c.may <- struct{}{}:
	default:
	}
}

var errTimeUp = errors.New("the time to wait is up")

// Acquire asks and waits.
func (s strategy) Acquire(ctx context.Context, of engine.Call) (*engine.Turn, error) {
	c, err := s.begin(of)
	if err != nil {
		return nil, err
	}
	defer func() { // also after a panic in a callback
		s.mu.Lock()
		defer s.mu.Unlock()
		s.quit(c)
		s.abandon(c)
	}()
	pursue := func(bounded context.Context) (*engine.Turn, error) {
		turn, err := s.pursue(bounded, ctx, c)
		return turn, s.why(bounded, ctx, c, err)
	}
	if of.Request.Wait > 0 {
		return s.core.Until(ctx, of.Began.Add(of.Request.Wait), errTimeUp, pursue)
	}
	return pursue(ctx)
}

func (l *Locker) begin(of engine.Call) (*call, error) {
	c := &call{
		Call: of, ticket: l.core.Ticket(&of.Request), requests: new(engine.Requests), away: l.draining,
		may: make(chan struct{}, 1), answered: of.Request.Answered,
	}
	if of.Within {
		c.away = l.closing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(c.away) {
		return nil, engine.ErrClosed
	}
	l.calls[c] = struct{}{}
	return c, nil
}

// pursue asks until the call has the lock, or must not wait for it.
func (l *Locker) pursue(ctx, caller context.Context, c *call) (*engine.Turn, error) {
	for {
		sent := time.Now()
		a, err := l.ask(ctx, c)
		l.asked(c, a, err)
		var pause <-chan time.Time
		switch {
		case err != nil:
			if ctx.Err() != nil || !c.goesOn(err) {
				return nil, err
			}
			l.failed(c, redact.Error(err))
			pause = time.After(c.failures.Next())
		case a.status == granted:
			return l.keep(c, a, sent)
		case a.status == gone:
			return nil, errors.New("the server says that this call has left already")
		default:
			if err := l.wait(caller, c, a); err != nil {
				return nil, err
			}
		}
		if err := l.mayAsk(ctx, c, pause); err != nil {
			return nil, err
		}
	}
}

// mayAsk returns when the call may ask again: when it is told to, or when the pause is over.
func (l *Locker) mayAsk(ctx context.Context, c *call, pause <-chan time.Time) error {
	select {
	case <-c.may:
		return nil
	case <-pause:
		return nil
	case <-ctx.Done():
		return errTimeUp
	case <-c.away:
		return engine.ErrClosed
	}
}

// wait takes in an answer that somebody else has the lock. The first time, the call joins the line
// of this process. It is an error if the call must not wait.
func (l *Locker) wait(caller context.Context, c *call, a answer) error {
	rejoined := c.joined && a.position > 0
	if a.status == waits && a.position == 0 { // nothing new but the time that is left
		a.holder, a.waiting = c.last.holder, c.last.waiting
	}
	if a.status != waits || a.position > 0 {
		c.named = time.Now()
	}
	c.last, c.at, c.answered, c.failure, c.failures = a, time.Now(), true, nil, engine.Backoff{}
	switch {
	case a.status == full:
		return engine.ErrQueueFull
	case c.Request.Wait == 0:
		return l.held(c)
	case rejoined:
		l.core.Settings.Observe(engine.Event{Kind: engine.PassedOver, Context: caller, Name: c.Name})
		l.heard(c, a)
		return nil
	case c.joined:
		l.heard(c, a)
		return nil
	}
	if err := l.join(c, a); err != nil {
		return err
	}
	l.core.TellPosition(caller, &c.Call, c.position, true)
	l.stand(c)
	return nil
}

// held is what was last heard of the holder. Who waits for a plain lock, only this process knows.
func (l *Locker) held(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &engine.HeldError{
		Owner: c.last.holder, Remaining: max(0, c.last.left-time.Since(c.at)), Waiting: c.last.waiting, Failure: l.lastFailure(c),
	}
	switch at := l.lines[c.Keys.Record()]; {
	case at == nil:
	case l.plain:
		e.Waiting = at.count
	case at.when.After(c.named): // the call itself was told of the holder as it joined
		e.Owner, e.Remaining, e.Waiting = at.seen.holder, max(0, at.seen.left-time.Since(at.when)), at.seen.waiting
	}
	return e
}

// goesOn reports whether the call asks again after a request failed.
func (c *call) goesOn(err error) bool {
	switch {
	case errors.Is(err, engine.ErrClosed):
		return false
	case c.Request.Wait == 0: // pooled connections may have died
		return lua.Unanswered(err) && time.Since(c.Began) < rules.InsistFor
	}
	return rules.Patient(c.answered || c.joined, err)
}

// why is the error for the caller: about the caller's own context if that has ended, else about
// what happened.
func (l *Locker) why(ctx, caller context.Context, c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case engine.HasEnded(caller):
		return l.gaveUp(c, engine.EndOf(caller))
	case engine.IsClosed(c.away):
		return engine.ErrClosed // also if a request came after the leave, and was refused
	case ctx.Err() == nil:
		return err
	case c.last.status != "":
		return l.held(c)
	}
	return l.gaveUp(c, context.DeadlineExceeded)
}

func (l *Locker) gaveUp(c *call, end error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &engine.WaitError{Position: c.position, Waited: time.Since(c.Began), Err: end, Failure: l.lastFailure(c)}
}

// ask sends one request, in the caller's own goroutine if the answer is sure to come back soon. If
// ctx ends first, or no answer comes, the request is left to itself. Whatever it does later, it
// does for the same owner.
func (l *Locker) ask(ctx context.Context, c *call) (answer, error) {
	if !l.asking(c) {
		return answer{}, engine.ErrClosed
	}
	server := cmp.Or(c.Server, l.core.Server)
	if prompt, ok := l.core.Prompt(ctx, &c.Call); ok && c.Server == nil {
		l.core.Begun()
		defer l.core.Done()
		return l.enter(ctx, prompt, c, l.request(c))
	}
	c.Server = nil // it is for the first request
	type reply struct {
		answer
		err error
	}
	replies := make(chan reply, 1)
	request := l.request(c) // the call may go on before the goroutine does
	l.core.Go(func() {
		r := reply{err: lua.ErrCutShort} // unless enter returns
		defer func() { replies <- r }()
		r.answer, r.err = l.enter(context.WithoutCancel(ctx), server, c, request)
	})
	var kept <-chan time.Time
	if c.answered { // else the client tells if a server can be reached
		timer := time.NewTimer(lua.MostKept) // or the head of a line could leave a free lock to nobody
		defer timer.Stop()
		kept = timer.C
	}
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-ctx.Done():
		return answer{}, errTimeUp
	case <-c.away:
		return answer{}, engine.ErrClosed
	case <-kept:
		return answer{}, lua.ErrKept
	}
}

// asking notes that a request goes out, unless the call is over.
func (l *Locker) asking(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.asks = !c.over
	if c.asks {
		c.traces = true
		c.requests.Sent()
	}
	return c.asks
}

// asked notes what came of a request. A definite error, or a refusal, leaves nothing behind. If the
// caller has not waited for the answer, the request may be executed by now.
func (l *Locker) asked(c *call, a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.asks = false
	nothing := err != nil && !lua.Unanswered(err) || a.status == held || a.status == full
	c.traces = c.traces && (!nothing || c.joined && !l.plain || c.requests.Open())
}

// request is an enter as it is sent.
type request struct {
	script lua.Script
	keys   []string
	args   []any
}

// request is the next request of a call.
func (l *Locker) request(c *call) request {
	keys := []string{c.Keys.Record(), c.Keys.Queue(), c.Keys.Waiters(), mark(c.Keys, c.owner())}
	args := []any{c.owner(), c.Request.Lease.Milliseconds()}
	if l.plain {
		return request{plainEnterScript, []string{keys[0], keys[3]}, args}
	}
	most := c.Request.MaxWaiters
	switch {
	case c.Request.Wait == 0:
		most = -1
	case c.position > 0: // it was let in, and may have lost its place
		most = 0
	}
	args = append(args, l.ours.Milliseconds(), most, l.publish(), channel(c.Keys), c.position == 0, l.java.Milliseconds())
	return request{enterScript, keys, args}
}

// enter sends one request.
func (l *Locker) enter(ctx context.Context, server *lua.Server, c *call, r request) (answer, error) {
	failed := lua.ErrCutShort // unless Run returns
	defer func() { c.requests.Done(failed) }()
	reply, err := server.Run(ctx, r.script, r.keys, r.args...)
	if failed = err; err != nil {
		return answer{}, err
	}
	return decodeAnswer(reply)
}

// keep puts what was granted under the watchdog.
func (l *Locker) keep(c *call, a answer, sent time.Time) (*engine.Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over || engine.IsClosed(c.away) {
		return nil, engine.ErrClosed
	}
	lease := c.Request.Lease
	term := rules.Term{Span: lease, Ends: sent.Add(lease)}
	if rules.Passed(term.TrustEnds(), time.Now()) {
		return nil, engine.LostTo(rules.Expired) // the call does not end here: it leaves
	}
	if at := l.lines[c.Keys.Record()]; at != nil && c.joined {
		at.answered()
	}
	l.end(c)
	return l.core.Keep(
		engine.Granted{Keys: c.Keys, Ticket: c.ticket, Since: a.since, Requests: c.requests},
		engine.Run{}, term,
		engine.For{Name: c.Name, Fixed: c.Request.Fixed}, time.Now(),
	), nil
}

// end notes that the call asks no more. l.mu must be held.
func (l *Locker) end(c *call) {
	c.over = true
	delete(l.calls, c)
}

// abandon makes sure, in the background, that a call that does not have the lock leaves nothing
// behind. l.mu must be held.
func (l *Locker) abandon(c *call) {
	if c.over {
		return
	}
	l.end(c)
	if !c.traces {
		return
	}
	l.core.Go(func() {
		l.core.Persist(c.Request.Lease, func(ctx context.Context) error {
			_, err := l.leave(ctx, l.core.Server, c.Keys, c.owner(), c.requests.Open())
			return err
		})
	})
}

// leave ends whatever an owner has. late says that a request of the owner may still come.
func (l *Locker) leave(ctx context.Context, server *lua.Server, keys lua.Keys, owner string, late bool) (lua.Was, error) {
	var refuse int64
	if late {
		refuse = rules.Late.Milliseconds()
	}
	script, names := leaveScript, []string{keys.Record(), keys.Queue(), keys.Waiters(), mark(keys, owner)}
	args := []any{owner, l.ours.Milliseconds(), refuse, l.publish(), channel(keys)}
	if l.plain {
		script, names = plainLeaveScript, []string{names[0], names[3]}
		args = []any{owner, refuse, l.publish(), channel(keys)}
	}
	was, err := server.RunText(ctx, script, names, args...)
	return lua.Was(was), err
}

// PassOn: turns do not pass within a process, or Java's waiters would be overtaken.
func (s strategy) PassOn(*engine.Hold) bool { return false }

// LeaveLine: nobody has a turn on the hold of another.
func (s strategy) LeaveLine(*engine.Hold, []lua.LeaveTicket) error { return nil }

// Release leaves for a hold: one attempt.
func (s strategy) Release(ctx context.Context, server *lua.Server, h *engine.Hold) (lua.Was, error) {
	return s.leave(ctx, server, h.Keys, h.Ticket.ID(), h.Requests.Open())
}

// Forget: nothing is kept of a hold.
func (s strategy) Forget(*engine.Hold) {}

// Knows and LeaveStray are about strays, for which nobody looks: each owner leaves by itself.
func (s strategy) Knows(uint64) bool { return true }

// LeaveStray is never called: see Knows.
func (s strategy) LeaveStray(lua.Keys, lua.Ticket) {}
