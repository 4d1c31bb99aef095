package fairlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/batch"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// attempt is one ticket that waits or tries once: its state by the rules, and its caller.
type attempt struct {
	engine.Call
	ticket   lua.Ticket
	requests *engine.Requests // shared with the hold
	alone    [1]*attempt      // itself, for requests with this ticket alone

	// Guarded by Locker.mu.
	rules.Waiter
	settled      chan struct{} // made when the caller has to wait; closed when the wait ends
	news         chan int      // holds one position; nil unless a waiting caller wants to know
	position     int           // in line, when the call joined; 0: not known
	lastPosition int           // that the server told
	failure      error         // of a try's last request; nil: it was answered. A line has its own
	turn         *engine.Turn
	err          error
}

// hadLock stands in the table for every attempt that has or had the lock. Its turn and its hold
// live longer and do not need the attempt.
var hadLock = &attempt{Waiter: rules.Waiter{Phase: rules.Granted}}

// Acquire enters the line and waits. If it ends without returning, for example because a callback
// panics, it leaves nothing behind.
func (s strategy) Acquire(ctx context.Context, call engine.Call) (turn *engine.Turn, err error) {
	a, err := s.begin(&call)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned {
			_ = s.giveUp(a, func() error { return errVanished })
		}
	}()
	s.open(ctx, a)
	turn, err = s.await(ctx, a)
	returned = true
	return turn, err
}

// errVanished settles a call whose caller no longer listens.
var errVanished = errors.New("the caller is gone")

// begin enters an attempt in the table.
func (l *Locker) begin(call *engine.Call) (*attempt, error) {
	a := &attempt{Call: *call, ticket: l.core.Ticket(&call.Request), requests: new(engine.Requests)}
	a.alone[0] = a
	a.Waiter = rules.Waiter{
		Lease: a.ticket.Lease, Try: call.Request.Wait == 0, Answered: call.Request.Answered, Began: call.Began,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.draining && !a.Within {
		return nil, ErrClosed
	}
	l.attempts[a.ticket.Counter] = a
	return a, nil
}

// open sends an attempt's first request, unless another call of its batch does. It uses the
// caller's own goroutine if the request is sure to come back soon, and nothing may bring the lock
// before that. The context is asked before others rely on this call: it may be the user's, and
// panic.
func (l *Locker) open(ctx context.Context, a *attempt) {
	var server *lua.Server
	prompt := false
	if a.Server == nil && !l.mayHear(a) {
		server, prompt = l.core.Prompt(ctx, &a.Call)
	}
	endless := ctx.Done() == nil
	with, sends := l.arrive(a)
	if !sends {
		return
	}
	if prompt && (with == nil || endless) { // a caller's end must not cut the batch short
		l.core.Begun()
		defer l.core.Done()
		l.first(ctx, server, a, with)
		return
	}
	l.core.Go(func() { l.first(context.WithoutCancel(ctx), cmp.Or(a.Server, l.core.Server), a, with) })
}

// mayHear reports whether a message or a turn may bring the lock before a's own request is
// answered: this process has a line or a run there. Then a's caller waits for both, and sends
// nothing itself.
func (l *Locker) mayHear(a *attempt) bool {
	if a.Try {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	record := a.Keys.Record()
	return l.lines[record] != nil || l.runs[record] != nil
}

func (l *Locker) first(ctx context.Context, server *lua.Server, a *attempt, with *batch.Batch[*attempt]) {
	if a.Try {
		l.try(ctx, server, a)
		return
	}
	l.arriving(ctx, server, a, l.speaksFor(a, with))
}

// arriving sends the first requests of calls that share them, which a speaks for: one after the
// other, as long as the answers do not tell what the other calls would be told. a's own goroutine
// sends no more than the first.
func (l *Locker) arriving(ctx context.Context, server *lua.Server, a *attempt, all []*attempt) {
	asked := all[:min(len(all), mostTogether)]
	rest := all[len(asked):]
	defer func() { // also if a hook of the client's, or a context of the user's, ends the goroutine
		if len(rest) == 0 {
			l.arrived(a)
			return
		}
		l.core.Go(func() { l.arriving(context.Background(), l.core.Server, a, rest) })
	}()
	x, _ := l.enter(ctx, server, false, asked...)
	rest = l.unasked(x, rest)
}

// await returns when the attempt is settled, or ctx or the time to wait has ended.
func (l *Locker) await(ctx context.Context, a *attempt) (*engine.Turn, error) {
	l.mu.Lock()
	if a.Phase == rules.Waiting {
		a.settled = make(chan struct{})
		if a.Request.OnQueued != nil || l.core.Settings.Observer != nil {
			a.news = make(chan int, 1)
			a.moved()
		}
	}
	l.mu.Unlock()
	if a.settled == nil { // turn and err are final
		return a.turn, a.err
	}
	var timeout <-chan time.Time
	if a.Request.Wait > 0 {
		timer := time.NewTimer(time.Until(a.Call.Began.Add(a.Request.Wait)))
		defer timer.Stop()
		timeout = timer.C
	}
	for queued := false; ; {
		news := a.news
		if queued {
			// A callback may have taken long. What ended the wait meanwhile comes before news.
			select {
			case <-a.settled:
				return a.turn, a.err
			default:
			}
			if ctx.Err() != nil || timeout != nil && time.Since(a.Call.Began) >= a.Request.Wait {
				news = nil
			}
		}
		select {
		case <-a.settled:
			if !queued && len(a.news) > 0 {
				l.core.TellPosition(ctx, &a.Call, <-a.news, true)
			}
			return a.turn, a.err
		case position := <-news:
			l.core.TellPosition(ctx, &a.Call, position, !queued)
			queued = true
		case <-ctx.Done():
			end := engine.EndOf(ctx) // with no mutex held: the context may be the user's
			return nil, l.giveUp(a, func() error {
				return &WaitError{Position: a.position, Waited: time.Since(a.Call.Began), Err: end, Failure: l.lastFailure(a)}
			})
		case <-timeout:
			return nil, l.giveUp(a, func() error { return l.timeUp(a) })
		}
	}
}

// moved tells the caller its present position, in place of one that the caller has not read yet.
// Locker.mu must be held.
func (a *attempt) moved() {
	if a.news == nil || a.lastPosition == 0 {
		return
	}
	select {
	case <-a.news:
	default:
	}
	a.news <- a.lastPosition
}

// giveUp ends a wait. If the lock is granted at this very moment, it is given back and the next in
// line has it. why is called with l.mu held.
func (l *Locker) giveUp(a *attempt, why func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := why()
	step := a.GivesUp(a.requests.Open())
	if step.Do == rules.Nothing && a.err != nil {
		return a.err
	}
	l.carryOut(a, step, err)
	return err
}

// carryOut does for a what a step of the rules says. err is the error of a's call if the step ends
// that call. l.mu must be held.
func (l *Locker) carryOut(a *attempt, s rules.Step, err error) {
	switch s.Do {
	case rules.Wait:
		l.enqueue(a)
	case rules.Ask:
		l.enqueue(a).enterAt(later(s.At, time.Now()))
	case rules.End:
		l.settle(a, nil, err)
		if s.Leave {
			l.leaves(a)
		} else {
			l.forget(a)
		}
	case rules.LeaveLine:
		l.leaves(a)
	case rules.GiveBack:
		l.core.Abandon(a.turn)
	case rules.Nothing, rules.Take: // for Take, the function that has the grant begins the hold
	}
}

// timeUp returns the error of a call whose time is up: what the last answer said of the holder, if
// there was an answer. l.mu must be held.
func (l *Locker) timeUp(a *attempt) error {
	if a.Last.At == 0 {
		return &WaitError{Waited: time.Since(a.Call.Began), Err: context.DeadlineExceeded, Failure: l.lastFailure(a)}
	}
	e := &HeldError{Failure: l.lastFailure(a)}
	if ln := l.lines[a.Keys.Record()]; a.turn != nil { // granted as the time ran out
		e.Owner, e.Remaining = a.ticket.Identity(), a.ticket.Lease
	} else if ln != nil {
		e.Owner, e.Waiting = ln.Holder, ln.Length
		e.Remaining = max(0, time.Until(ln.Free))
		if owner, ends, ours := l.core.Present(a.Keys.Record()); ours { // a message has told of it since
			e.Owner, e.Remaining = owner, max(0, time.Until(ends))
		}
	}
	return e
}

// settle ends a's wait and gives its caller a turn or an error. l.mu must be held.
func (l *Locker) settle(a *attempt, turn *engine.Turn, err error) {
	if a.turn, a.err = turn, err; turn != nil {
		l.attempts[a.ticket.Counter] = hadLock
	}
	if ln := l.lines[a.Keys.Record()]; ln != nil {
		ln.remove(a)
		if len(ln.waiting) == 0 {
			ln.alarm.Stop()
			delete(l.lines, a.Keys.Record())
			l.emptied(a.Keys)
		}
	}
	if a.settled != nil {
		close(a.settled)
	}
}

// abandon ends the waits that match with ErrClosed. The waiters of one lock leave together. l.mu
// must be held.
func (l *Locker) abandon(match func(*attempt) bool) {
	together := make(map[lua.Keys][]*attempt)
	for _, a := range l.attempts {
		if a.Phase != rules.Waiting || !match(a) {
			continue
		}
		if step := a.GivesUp(a.requests.Open()); step.Leave {
			l.settle(a, nil, ErrClosed)
			together[a.Keys] = append(together[a.Keys], a)
		} else {
			l.carryOut(a, step, ErrClosed)
		}
	}
	for _, group := range together {
		for chunk := range slices.Chunk(group, lua.MaxTickets) {
			l.core.Go(func() { l.leave(chunk...) })
		}
	}
}
