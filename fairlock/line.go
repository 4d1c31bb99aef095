package fairlock

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/redact"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// line is this process's waiters of one lock. It exists as long as there are any. All of it is
// guarded by Locker.mu.
type line struct {
	rules.Line
	keys    lua.Keys
	waiting map[*attempt]struct{}
	failing engine.Failing // the requests of any of them
	owners  map[string]int // how many of those name that owner; nil: none does
	alarm   *engine.Alarm
}

func (ln *line) add(a *attempt) {
	if _, ok := ln.waiting[a]; ok {
		return
	}
	ln.waiting[a] = struct{}{}
	if owner := a.ticket.Owner; owner != "" {
		if ln.owners == nil {
			ln.owners = make(map[string]int)
		}
		ln.owners[owner]++
	}
}

func (ln *line) remove(a *attempt) {
	if _, ok := ln.waiting[a]; !ok {
		return
	}
	delete(ln.waiting, a)
	if owner := a.ticket.Owner; ln.owners[owner] > 1 {
		ln.owners[owner]--
	} else {
		delete(ln.owners, owner)
	}
}

// enqueue puts a among the waiters for which heartbeats are sent. l.mu must be held.
func (l *Locker) enqueue(a *attempt) *line {
	ln := l.lines[a.Keys.Record()]
	if ln == nil {
		now := time.Now()
		ln = &line{keys: a.Keys, waiting: make(map[*attempt]struct{}), Line: rules.NewLine(now, a.Claim())}
		ln.alarm = engine.NewAlarm(ln.Due, func() { l.beat(ln) })
		l.lines[a.Keys.Record()] = ln
	}
	ln.add(a)
	return ln
}

// enterAt makes all of the line ask at that time, unless they ask sooner anyway. l.mu must be held.
func (ln *line) enterAt(at time.Time) {
	ln.EnterAt(at)
	ln.alarm.By(ln.Due)
}

// hurry makes the waiters of a lock ask at once, because they may have missed something. Calls
// whose first request is under way ask again when it is answered. l.mu must be held.
func (l *Locker) hurry(record string) {
	now := time.Now()
	l.arrivals.miss(record, now)
	if ln := l.lines[record]; ln != nil {
		ln.enterAt(now)
	}
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// beat sends the line's heartbeat, in chunks, or the heartbeat of its first waiter alone. The chunks
// go out one after the other: a free lock is for the first ticket that asks.
func (l *Locker) beat(ln *line) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.lines[ln.keys.Record()] != ln {
		return
	}
	all := make([]*attempt, 0, len(ln.waiting))
	for a := range ln.waiting {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.ticket.Counter, b.ticket.Counter))
	})
	some := ln.Beat(time.Now(), all[0].Claim(), len(all))
	if some {
		all = all[:1]
	}
	ln.alarm.WentOff()
	ln.alarm.By(ln.Due)
	l.core.Go(func() {
		for chunk := range slices.Chunk(all, lua.MaxTickets) {
			if _, again := l.enter(context.Background(), l.core.Server, some, chunk...); again {
				return // and so will all the line
			}
		}
	})
}

// order sorts waiters without a place behind those with one.
func (a *attempt) order() lua.Place { return cmp.Or(a.Place, math.MaxInt64) }

// enter sends one request for those of the attempts that still wait, all for one lock, and handles
// the answer. some tells the server that these are only some of the line. If a context of the
// user's ends the request by a panic, it counts as unanswered: others may wait for that answer.
// again reports whether some of the attempts have to ask again.
func (l *Locker) enter(ctx context.Context, server *lua.Server, some bool, all ...*attempt) (x exchange, again bool) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		x.done()
		if x.err != nil {
			again = l.unentered(x)
			return
		}
		l.answered(x)
	}()
	l.ask(ctx, server, some, all, &x)
	for i, t := range x.answer.Tickets {
		if a := x.of[i]; t.Returned {
			l.core.Settings.Logger.Info("fairlock: a waiter was out of the line and is back in its place: it was out of reach, or data was lost",
				"lock", a.Name, "owner", a.ticket.Identity(), "waited", time.Since(a.Call.Began))
			l.core.Settings.Observe(engine.Event{Kind: engine.PassedOver, Name: a.Name, Owner: a.ticket.Identity()})
		}
	}
	return x, false
}

// exchange is an enter and what came of it.
type exchange struct {
	of     []*attempt
	sent   rules.ClockPair // without the server's time
	answer lua.Entered
	err    error
}

// ask sends an enter, or nothing if none of the attempts waits any more. An enter that was sent
// after its ticket's leave would put the ticket back in line as a ghost.
func (l *Locker) ask(ctx context.Context, server *lua.Server, some bool, all []*attempt, x *exchange) {
	keys := all[0].Keys
	request := lua.Enter{Try: all[0].Try, Some: some}
	tickets := make([]lua.EnterTicket, 0, 1)
	l.mu.Lock()
	x.sent = rules.ClockPair{Sent: time.Now(), Session: l.session(keys)}
	known := l.memory.Recall(keys.Record(), x.sent.Sent)
	request.Seen, request.Spare = known.Token, max(known.Lease, l.core.Settings.Lease)
	for _, a := range all {
		if a.Phase != rules.Waiting {
			continue
		}
		place, first, mend := a.Enter()
		ticket := lua.EnterTicket{Ticket: a.ticket, Place: place, Tell: a.Request.OnQueued != nil || mend}
		if first {
			ticket.MaxWaiters = a.Request.MaxWaiters
		}
		// A later answer seldom brings the grant, and others would wait for the replicas, too.
		if first && a.Unplaced == 1 && len(all) == 1 {
			request.Replicas = a.Request.Replicas
		}
		a.requests.Sent()
		if len(all) == 1 {
			x.of = a.alone[:]
		} else {
			x.of = append(x.of, a)
		}
		tickets = append(tickets, ticket)
	}
	l.mu.Unlock()
	if len(x.of) == 0 {
		return
	}
	request.Tickets, x.err = tickets, lua.ErrCutShort // unless Enter returns
	x.answer, x.err = server.Enter(ctx, keys, request)
}

// done notes that the request was answered or failed. Until l.mu is held to handle the answer, a
// call that gives up must leave as if no answer had come. So l.mu must be held from here until the
// answer is handled.
func (x *exchange) done() {
	for _, a := range x.of {
		a.requests.EnterDone(x.err)
	}
}

// unentered handles a failed enter. A call that never had an answer fails with a definite error. A
// call that may be in line waits on: unentered reports whether there is one. l.mu must be held.
func (l *Locker) unentered(x exchange) (again bool) {
	now := time.Now()
	ln := l.failed(x.of, x.err, now)
	if ln == nil {
		return false
	}
	ln.Failed(now)
	ln.alarm.By(ln.Due)
	if !lua.Ended(x.err) {
		ln.failing.Note(l.core, x.of[0].Name, redact.Error(x.err))
	}
	return true
}

// failed has the attempts of a request that failed wait in line for the next one, or ends them. It
// returns the line, or nil if none waits. l.mu must be held.
func (l *Locker) failed(all []*attempt, err error, now time.Time) (ln *line) {
	for _, a := range all {
		step := a.Unanswered(err, now, a.requests.Open())
		if step.Do == rules.Ask {
			ln = l.enqueue(a)
			continue
		}
		l.carryOut(a, step, err)
	}
	return ln
}

// lastFailure is why the last request of a try, or of the line in which a waits, failed, if it did.
// l.mu must be held.
func (l *Locker) lastFailure(a *attempt) error {
	if ln := l.lines[a.Keys.Record()]; ln != nil {
		if _, waits := ln.waiting[a]; waits {
			return ln.failing.Last
		}
	}
	return a.failure
}

// answered handles the answer to an enter. l.mu must be held.
func (l *Locker) answered(x exchange) {
	if len(x.of) == 0 {
		return
	}
	e, sent, now := x.answer, x.sent, time.Now()
	sent.At = e.Now
	record := x.of[0].Keys.Record()
	l.memory.Note(record, rules.Known{Token: e.Token, Lease: e.Lease}, now)
	l.core.Doubt(record, e.Holder, e.Now)
	l.core.CheckHolder(x.of[0].Keys, e.Holder, l.knows)
	for i, a := range x.of {
		l.told(a, e, e.Tickets[i], sent, now)
	}
	if e.Grant != nil {
		l.grantedInPassing(x.of[0].Keys, e.Grant, sent.Sent)
	}
	ln := l.lines[record]
	if ln == nil {
		return
	}
	ln.failing.Over()
	waits := slices.ContainsFunc(e.Tickets, func(t lua.TicketState) bool { return t.Status == lua.Waiting })
	blind := ln.Answered(&e, now, waits)
	if waits && l.arrivals.missedSince(record, sent.Sent) {
		ln.EnterAt(now)
	}
	ln.alarm.By(ln.Due)
	if blind || waits && l.subscriptions[l.core.Server.Channel(ln.keys)] == nil { // or heard by one that is ending
		l.listen(ln.keys, sent.Session)
	}
}

// told handles what an answer says of one ticket. l.mu must be held.
func (l *Locker) told(a *attempt, e lua.Entered, t lua.TicketState, s rules.ClockPair, now time.Time) {
	a.failure = nil
	switch {
	case a.Phase == rules.Waiting && t.Status == lua.Waiting:
		a.position = cmp.Or(a.position, t.Position)
		if t.Position > 0 && t.Position != a.lastPosition {
			a.lastPosition = t.Position
			a.moved()
		}
	case a.Phase != rules.Waiting && l.attempts[a.ticket.Counter] == nil:
		a.Left()
	}
	step := a.Told(&t, e.Token, s, now, a.requests.Open())
	if step.Do == rules.Take {
		confirmed := e.Confirmed
		if a.Unplaced > 1 {
			// An earlier request may have taken the lock, on another connection. From Redis 7.2
			// on, WAIT asks for what its own connection has written.
			confirmed = nil
		}
		l.give(a, t.Grant, "", step.Term, confirmed, now)
		return
	}
	l.carryOut(a, step, a.why(step.Why, &e))
}

// why returns the error of a call that an answer ends.
func (a *attempt) why(why rules.Why, e *lua.Entered) error {
	switch why {
	case rules.Refused:
		return &HeldError{Owner: e.Holder, Remaining: e.Remaining, Waiting: e.Waiting}
	case rules.TooLate:
		return &HeldError{Owner: a.ticket.Identity(), Remaining: e.Remaining}
	case rules.Full:
		return ErrQueueFull
	case rules.Evicted:
		return ErrEvicted
	case rules.Forced:
		return engine.LostTo(why)
	default: // the call did not end
		return nil
	}
}

// try sends the one request of a call that does not wait. If the request goes unanswered, it is
// sent again in the background.
func (l *Locker) try(ctx context.Context, server *lua.Server, a *attempt) {
	settled := false
	defer func() { // also if a hook of the client's ends the goroutine
		if settled {
			return
		}
		var backoff engine.Backoff
		own := context.WithoutCancel(ctx)
		last := server.Over() // then the caller gives up in no time, and wants no second request
		l.core.Repeat(func() bool {
			if last {
				last = false
				return false
			}
			return l.tried(own, l.core.Server, a)
		}, func() { _ = backoff.Wait(own) })
	}()
	settled = l.tried(ctx, server, a)
}

// tried sends a request of a try and reports whether that settled the call. A request that is cut
// short counts as unanswered.
func (l *Locker) tried(ctx context.Context, server *lua.Server, a *attempt) (settled bool) {
	var x exchange
	defer func() { settled = l.took(a, x) }()
	l.ask(ctx, server, false, a.alone[:], &x)
	return settled
}

// took handles what came of a try's request and reports whether that settled the call.
func (l *Locker) took(a *attempt, x exchange) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.done()
	if x.err == nil {
		l.answered(x)
		return a.Phase != rules.Waiting
	}
	if !lua.Ended(x.err) {
		a.failure = redact.Error(x.err)
	}
	if step := a.Unanswered(x.err, time.Now(), a.requests.Open()); step.Do == rules.End {
		l.carryOut(a, step, x.err)
	}
	return a.Phase != rules.Waiting
}
