package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/locks/lua"
)

// Call is one call on its way to its lock, with one ticket or several.
type Call struct {
	Name    string
	Keys    lua.Keys
	Request Request
	Within  bool        // the call was made under a live hold of this Locker
	Began   time.Time   // or when it joined the line again
	Server  *lua.Server // for the first request, if that is to go out with others; else nil
}

// Lock is Lock, TryLock and the first half of Do; op names which. It re-enters a hold, or gets a
// new hold from the Locker and gives the first Lease on it.
func (c *Core) Lock(ctx context.Context, op, name string, try bool, options []LockOption) (*Lease, error) {
	began := time.Now()
	lease, err := c.lock(ctx, began, name, try, options)
	if err == nil {
		return lease, nil
	}
	return nil, c.gaveUp(ctx, began, op, name, err)
}

// gaveUp tells the observer that a call ended without its lock, and returns its error.
func (c *Core) gaveUp(ctx context.Context, began time.Time, op, name string, err error) error {
	if end, ok := err.(*WaitError); ok { //nolint:errorlint // what it wraps may be the user's, and is not asked
		whole := *end
		whole.Waited, err = time.Since(began), &whole // also of a call that joined several lines, or one again
	}
	if c.Settings.Observer != nil {
		c.Settings.Observe(Event{Kind: GaveUp, Context: ctx, Name: name, Took: time.Since(began), Err: err})
	}
	return &Error{op, name, err}
}

// lock keeps the Call, and what it calls fills it in: a goroutine that waits keeps its stack, which
// is twice as large with a copy in each frame.
func (c *Core) lock(ctx context.Context, began time.Time, name string, try bool, options []LockOption) (*Lease, error) {
	var call Call
	call.Name, call.Began = name, began
	if lease, err := c.begin(ctx, &call, try, options); lease != nil || err != nil {
		return lease, err
	}
	call.Within = c.within(ctx)
	return c.pursue(ctx, &call, began, call.Request.Wait)
}

// pursue gets a new hold from the Locker and gives the first Lease on it. The user's call began at
// that time and waits for so long.
func (c *Core) pursue(ctx context.Context, call *Call, began time.Time, wait time.Duration) (*Lease, error) {
	until := began.Add(wait)
	for {
		lease, err := c.acquire(ctx, call, began, wait)
		if !errors.Is(err, ErrLost) || call.Request.Wait == 0 || ctx.Err() != nil {
			return lease, err
		}
		// The lock was lost before there was a Lease: the claim could not be confirmed in time, or
		// the process stood still. Nobody can have used the lock. The call joins the line again, at
		// its end. It had been let in, however long the line is by now.
		call.Began, call.Request.MaxWaiters = time.Now(), 0
		if call.Request.Wait > 0 {
			call.Request.Wait = max(until.Sub(call.Began), 1)
		}
		call.Request.Answered = true
	}
}

func (c *Core) acquire(ctx context.Context, call *Call, began time.Time, wait time.Duration) (*Lease, error) {
	turn, err := c.strategy.Acquire(ctx, *call)
	if err != nil {
		return nil, err
	}
	return c.Adopt(ctx, turn, began, wait)
}

// begin checks what is asked for, re-enters, and makes contact. If it returns a Lease, the call is
// over.
func (c *Core) begin(ctx context.Context, call *Call, try bool, options []LockOption) (*Lease, error) {
	if err := c.read(ctx, call, options); err != nil {
		return nil, err
	}
	contact := call.Request.Wait // it bounds the contact of a try, too
	if try {
		call.Request.Wait = 0
	}
	if lease, err := c.Reenter(ctx, call.Keys.Record(), call.Request); lease != nil || err != nil {
		return lease, err
	}
	return nil, c.contactFor(ctx, call.Keys, contact)
}

// read checks what a call for call.Name asks for, before anything is sent, and completes the Call
// with it.
func (c *Core) read(ctx context.Context, call *Call, options []LockOption) (err error) {
	call.Request = c.Settings.Request(options)
	if err = call.Request.Err; err == nil {
		err = c.checkRequest(ctx, &call.Request)
	}
	if err == nil {
		call.Keys, err = c.keys(call.Name)
	}
	if err == nil {
		err = c.checkReplicas(&call.Request)
	}
	if err == nil && ctx.Err() != nil {
		err = EndOf(ctx)
	}
	return err
}

func (c *Core) checkRequest(ctx context.Context, r *Request) error {
	return errors.Join(checkContext(ctx), c.protocol.Check(*r))
}

func checkContext(ctx context.Context) error {
	if ctx == nil {
		return Invalid("the context is nil")
	}
	return nil
}

func (c *Core) checkReplicas(r *Request) error {
	if bound := c.Server.Bound(); bound > 0 && r.Replicas.Within >= bound {
		return Invalid("%s: a timeout of %v is not shorter than the client's read timeout of %v", r.replication(), r.Replicas.Within, bound)
	}
	return nil
}

func (c *Core) keys(name string) (lua.Keys, error) {
	if c.Settings.Err != nil {
		return lua.Keys{}, c.Settings.Err
	}
	keys, err := c.protocol.Keys(name)
	if err != nil {
		return lua.Keys{}, Invalid("%v", err)
	}
	return keys, nil
}

// TellPosition tells the caller and the observer where a call stands in line.
func (c *Core) TellPosition(ctx context.Context, call *Call, position int, first bool) {
	r := &call.Request
	if first && c.Settings.Observer != nil {
		c.Settings.Observe(Event{Kind: Queued, Context: ctx, Name: call.Name, Owner: r.Owner, Position: position})
	}
	if r.OnQueued != nil {
		r.OnQueued(position)
	}
}

// Prompt returns the Server to which a call may send a request from its own goroutine, if the
// request is sure to come back soon.
func (c *Core) Prompt(ctx context.Context, call *Call) (*lua.Server, bool) {
	r := &call.Request
	if r.Replicas.Asked() { // the request waits for the replicas
		return nil, false
	}
	limit := lua.MostKept
	if r.Wait > 0 {
		limit = min(limit, r.Wait-time.Since(call.Began))
		if limit <= 0 {
			return nil, false
		}
	}
	return c.Server.Prompt(ctx, limit)
}

// Ticket returns the client's next ticket.
func (c *Core) Ticket(r *Request) lua.Ticket {
	return lua.NewTicket(c.ID, c.counter.Add(1), r.Lease, r.Owner, r.Note)
}

// Do runs fn under the lock and releases it when fn returns or panics.
func (c *Core) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, options []LockOption) (err error) {
	if fn == nil {
		return c.gaveUp(ctx, time.Now(), "do", name, Invalid("the function is nil"))
	}
	lease, err := c.Lock(ctx, "do", name, false, options)
	if err != nil {
		return err
	}
	var gone error // the lock was lost, or the Locker closed, before fn began
	over := false
	defer func() {
		err = c.afterDo(err, lease.unlockAtLast(ctx), gone, over)
	}()
	inner := lease.scoped(ctx)
	if gone = lease.state(); gone != nil { // the user's context may have taken long
		return &Error{"do", name, gone}
	}
	err = fn(inner, lease)
	over = true
	return err
}

// afterDo is the error of a Do whose function returned err and whose Unlock returned failed. If
// gone is not nil, that is the error, and the function was not called. If the function is not over,
// it panicked or ended its goroutine: no caller hears of what failed, and the log says it.
func (c *Core) afterDo(err, failed, gone error, over bool) error {
	failed = unexpected(failed)
	if failed == nil || gone != nil {
		return err
	}
	if !over {
		c.Settings.Logger.Warn("fairlock: a function that did not return had lost its lock, or the lock was not given back", "error", failed)
	}
	if err != nil {
		return errors.Join(err, failed)
	}
	return failed
}

// unexpected is what is left of the errors of an Unlock without ErrNotHeld: the function of a Do may
// have unlocked the Lease.
func unexpected(failed error) error {
	if all, ok := failed.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, err := range all.Unwrap() {
			left = append(left, unexpected(err))
		}
		return errors.Join(left...)
	}
	if errors.Is(failed, ErrNotHeld) && !errors.Is(failed, ErrLost) {
		return nil
	}
	return failed
}

// within reports whether the call is made under a live hold of any lock of this Core: the call's
// context carries one, or its goroutine is inside Do.
func (c *Core) within(ctx context.Context) bool {
	// No mutex is held here: the context may be the user's.
	if t, _ := ctx.Value(anyTurn{c}).(*Turn); t != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bound) > 0 && c.bound[current()] > 0
}
