package fairlock

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
)

const (
	enterEvery  = 5 * time.Second        // all of them; a third of the server's liveness
	blindEvery  = time.Second            // as long as the server does not see our channel
	remakeEvery = 30 * time.Second       // a proxy may never show us to the server
	enterAgain  = 5 * time.Millisecond   // no two enters of a line are closer
	askEvery    = 500 * time.Millisecond // the first alone, however short its claim
)

// line is this process's waiters of one lock. It exists as long as there are any; all is guarded by Locker.mu.
type line struct {
	keys    lua.Keys
	waiting map[*attempt]struct{}
	timer   *time.Timer
	due     time.Time // of the timer
	whole   time.Time // when all of them enter next; before that, the first alone
	entered time.Time // when the last enter went out
	backoff time.Duration

	// What the last answer said.
	holder string
	free   time.Time // when the record ends unless it is renewed
	length int
}

func (ln *line) remove(a *attempt) { delete(ln.waiting, a) }

// enqueue has a's heartbeats sent. l.mu must be held.
func (l *Locker) enqueue(a *attempt) *line {
	ln := l.lines[a.keys.Record()]
	if ln == nil {
		now := time.Now()
		ln = &line{keys: a.keys, waiting: make(map[*attempt]struct{}), due: now.Add(a.asksEvery()), whole: now.Add(enterEvery), entered: now}
		ln.timer = time.AfterFunc(a.asksEvery(), func() { l.beat(ln) })
		l.lines[a.keys.Record()] = ln
	}
	ln.waiting[a] = struct{}{}
	return ln
}

// asksEvery is how often the first of a line asks, for all, when the present record ends. Who was
// given the lock and died before its first renewal has it for a claim, and nobody is told:
// whoever asks within that time is there when it is over.
func (a *attempt) asksEvery() time.Duration { return max(a.ticket.Claim()*5/6, askEvery) }

// enterAt has all of the line enter at the given time, if they would not sooner anyway. l.mu must
// be held.
func (ln *line) enterAt(at time.Time) {
	if at.Before(ln.whole) {
		ln.whole = at
	}
	ln.askAt(at)
}

// askAt is enterAt for the first alone: one is enough to notice that the lock is free. l.mu must
// be held.
func (ln *line) askAt(at time.Time) {
	if soonest := ln.entered.Add(enterAgain); at.Before(soonest) {
		at = soonest
	}
	if at.Before(ln.due) {
		ln.due = at
		ln.timer.Reset(time.Until(at))
	}
}

// hurry has the waiters of a lock enter at once: something may have been missed. l.mu must be held.
func (l *Locker) hurry(keys lua.Keys) {
	if ln := l.lines[keys.Record()]; ln != nil {
		ln.enterAt(time.Now())
	}
}

// beat sends the line's heartbeat, in chunks side by side, or that of its first alone.
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
	ln.entered = time.Now()
	some := ln.entered.Before(ln.whole) && len(all) > 1
	if some {
		all = all[:1]
	} else {
		ln.whole = ln.entered.Add(enterEvery)
	}
	wait := min(ln.whole.Sub(ln.entered), all[0].asksEvery())
	ln.due = ln.entered.Add(wait)
	ln.timer.Reset(wait)
	for from := 0; from < len(all); from += lua.MaxTickets {
		chunk := all[from:min(from+lua.MaxTickets, len(all))]
		l.core.Keeper.Go(func() { l.enter(context.Background(), some, chunk...) })
	}
}

// order sorts those that have no place yet behind those that have.
func (a *attempt) order() lua.Place { return cmp.Or(a.place, math.MaxInt64) }

// enter sends one request for those that still wait, all for one lock, and takes in the answer.
// If these are some of the line, it says so.
func (l *Locker) enter(ctx context.Context, some bool, all ...*attempt) {
	q := l.ask(ctx, some, all)
	for i, t := range q.answer.Tickets {
		if a := q.of[i]; t.Returned {
			l.core.Settings.Logger.Info("fairlock: a waiter was out of the line and is back in its place: it was out of reach, or data was lost",
				"lock", a.name, "owner", a.ticket.Identity(), "waited", time.Since(a.began))
			l.core.Settings.Observe(reentrant.Event{Kind: reentrant.PassedOver, Name: a.name, Owner: a.ticket.Identity()})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q.done()
	if q.err != nil {
		l.unentered(q)
		return
	}
	l.answered(q)
}

// question is an enter and what came of it.
type question struct {
	of     []*attempt
	sent   sighting // without the server's time
	answer lua.Entered
	err    error
}

// ask sends an enter, or nothing if nobody waits any more: a request that overtook its ticket's leave would be a ghost.
func (l *Locker) ask(ctx context.Context, some bool, all []*attempt) question {
	keys := all[0].keys
	request := lua.Enter{Try: all[0].request.Wait == 0, Some: some}
	tickets := make([]lua.EnterTicket, 0, 1)
	l.mu.Lock()
	q := question{sent: sighting{session: l.earOf(keys).up()}}
	request.Seen, request.Lease = l.memory.Recall(keys.Record())
	request.Lease = max(request.Lease, l.core.Settings.Lease)
	for _, a := range all {
		if a.state != waiting {
			continue
		}
		if a.place == 0 {
			a.unplaced++
		}
		strays := a.place != 0 && a.unplaced > 1 // one of them may be executed late and put it elsewhere
		ticket := lua.EnterTicket{Ticket: a.text, Place: a.place, Tell: a.request.OnQueued != nil || strays}
		if a.last.at == 0 {
			ticket.MaxWaiters = a.request.MaxWaiters // whoever was let into the line is not turned away later
			request.Replicas = a.request.Replicas    // a later answer seldom brings the grant
		}
		a.requests.Sent()
		if len(all) == 1 {
			q.of = a.alone[:]
		} else {
			q.of = append(q.of, a)
		}
		tickets = append(tickets, ticket)
	}
	l.mu.Unlock()
	if len(q.of) == 0 {
		return q
	}
	request.Tickets = tickets
	q.sent.sent = time.Now()
	q.answer, q.err = l.core.Server.Enter(ctx, keys, request)
	return q
}

// done ends the request. Until l.mu is held to take its answer in, who gives up has to leave as if there were none.
func (q *question) done() {
	for _, a := range q.of {
		a.requests.EnterDone(q.err)
	}
}

// unentered takes in that an enter failed. A call that never had an answer fails with a definite error; one that may be
// in line waits on. l.mu must be held.
func (l *Locker) unentered(q question) {
	err := q.err
	for _, a := range q.of {
		if a.state != waiting {
			continue
		}
		if !reentrant.Patient(a.last.at != 0 || a.request.Waited, err) {
			l.settle(a, nil, err)
			l.dismiss(a)
			continue
		}
		ln := l.enqueue(a)
		ln.backoff = min(max(2*ln.backoff, 2*enterAgain), blindEvery)
		ln.enterAt(time.Now().Add(ln.backoff))
	}
}

// answered takes in the answer to an enter. l.mu must be held.
func (l *Locker) answered(q question) {
	if len(q.of) == 0 {
		return
	}
	e, sent := q.answer, q.sent
	sent.at = e.Now
	record := q.of[0].keys.Record()
	l.memory.Note(record, e.Token, e.Lease)
	l.core.Keeper.Doubt(record, e.Holder, e.Now)
	l.suspect(q.of[0].keys, e.Holder)
	for i, a := range q.of {
		l.told(a, e, e.Tickets[i], sent)
	}
	if e.Grant != nil {
		l.grantedInPassing(q.of[0].keys, e.Grant, sent.sent)
	}
	ln := l.lines[record]
	if ln == nil {
		return
	}
	ln.backoff = 0
	ln.holder, ln.length = e.Holder, e.Waiting
	ln.free = time.Now().Add(e.Remaining)
	switch {
	case e.More:
		ln.enterAt(time.Now())
	case e.Remaining > 0:
		ln.askAt(ln.free.Add(2 * time.Millisecond)) // nobody else tells us that a holder died
	}
	inLine := func(t lua.TicketState) bool { return t.Status == lua.Waiting }
	if !e.Heard && slices.ContainsFunc(e.Tickets, inLine) {
		ln.enterAt(time.Now().Add(blindEvery))
		l.listen(ln.keys, sent.session)
	}
}

// told takes in what an answer says of one ticket. l.mu must be held.
func (l *Locker) told(a *attempt, e lua.Entered, t lua.TicketState, s sighting) {
	if a.state != waiting {
		// It has left or is held: what is said of it is older, or undone by a leave that is on its way;
		// if that has been answered, by another.
		if l.attempts[a.ticket.Counter] == nil && (t.Status == lua.Waiting || t.Status == lua.Granted) {
			l.core.Keeper.Go(func() { l.leave(a) })
		}
		return
	}
	switch t.Status {
	case lua.Granted:
		if t.Grant.Token <= a.shown && s.at < a.last.at { // forced since, and a later answer came first
			l.enqueue(a)
			l.hurry(a.keys)
			return
		}
		l.granted(a, t.Grant, s.sent, e.Confirmed)
	case lua.Waiting:
		a.position = cmp.Or(a.position, t.Position)
		if t.Position > 0 && t.Position != a.now {
			a.now = t.Position
			a.moved()
		}
		a.shown = max(a.shown, e.Token)
		if s.at >= a.last.at {
			a.last, a.place = s, t.Place // answers may overtake one another
		}
		l.enqueue(a)
	case lua.Held:
		l.settle(a, nil, &HeldError{Owner: e.Holder, Remaining: e.Remaining, Waiting: e.Waiting})
		l.dismiss(a)
	case lua.Full:
		l.settle(a, nil, ErrQueueFull)
		l.dismiss(a)
	case lua.Gone:
		l.settle(a, nil, ErrEvicted) // of its own accord it has not left
		l.dismiss(a)
	}
}

// try is the one request of a call that does not wait. Only if it goes unanswered is it sent again, in the background.
func (l *Locker) try(ctx context.Context, all ...*attempt) {
	if l.tried(ctx, all[0]) {
		return
	}
	l.core.Keeper.Go(func() {
		var backoff reentrant.Backoff
		for !l.tried(context.WithoutCancel(ctx), all[0]) {
			_ = backoff.Wait(context.Background())
		}
	})
}

// tried sends a request of a try and reports whether that settled it.
func (l *Locker) tried(ctx context.Context, a *attempt) bool {
	return l.took(a, l.ask(ctx, false, a.alone[:]))
}

// took takes in what came of a try's request, and reports whether that settled it.
func (l *Locker) took(a *attempt, q question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.done()
	switch {
	case q.err == nil:
		l.answered(q)
	case a.state != waiting: // it was granted meanwhile, by the answer to another request
	case !lua.Unanswered(q.err) && !lua.Moving(q.err) || time.Since(a.began) > reentrant.InsistFor:
		l.settle(a, nil, q.err)
		l.dismiss(a)
	}
	return a.state != waiting
}
