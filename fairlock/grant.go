package fairlock

import (
	"fmt"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// message handles a message of the server to this client.
func (l *Locker) message(payload string) {
	received := time.Now()
	m, keys, err := l.core.Message(payload)
	if err != nil {
		return
	}
	l.heard(payload, &m, keys, received)
	if m.News == lua.Forces {
		l.core.Forced(m)
	}
}

// heard handles a message for a waiting call, or for a ticket that no call knows any more.
func (l *Locker) heard(payload string, m *lua.Message, keys lua.Keys, received time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.attempts[m.Ticket.Counter]
	switch {
	case a == hadLock:
		return // the message came twice; or it is a force, which Core.Forced handles
	case a == nil:
		gone := rules.Waiter{Phase: rules.Gone}
		if gone.Heard(m, received, 0, false).Do == rules.LeaveLine {
			l.unwanted(keys, m.Ticket)
		}
		return
	case !a.is(keys, m.Ticket):
		l.core.Nonsense(fmt.Errorf("message %.200q: its call asks for %s as %s", payload, a.Keys.Record(), a.ticket))
		return
	}
	step := a.Heard(m, received, l.session(keys), a.requests.Open())
	if step.Do != rules.Take {
		l.carryOut(a, step, ErrEvicted)
		return
	}
	if a.Last.At == 0 {
		a.requests.Overtaken()
	}
	l.give(a, lua.Grant{Token: m.Token, Since: m.At}, m.Run, step.Term, nil, received)
}

// is reports whether the lock and the whole ticket are the attempt's.
func (a *attempt) is(keys lua.Keys, ticket lua.Ticket) bool {
	return rules.Concerns(keys.Record(), ticket, a.Keys.Record(), a.ticket)
}

// give begins the hold of an attempt that has the lock for the term, with its run. The token is
// noted only now, because the server believes what a client says it knows. l.mu must be held.
func (l *Locker) give(a *attempt, g lua.Grant, counters string, t rules.Term, confirmed *lua.Confirmed, now time.Time) {
	l.memory.Note(a.Keys.Record(), rules.Known{Token: g.Token, Lease: a.ticket.Lease}, now)
	granted := engine.Granted{Keys: a.Keys, Ticket: a.ticket, Token: g.Token, Since: g.Since, Requests: a.requests}
	var run engine.Run
	if a.Request.Shares() {
		run.Counters = lua.Counters(counters)
		run.Turns, run.For = len(run.Counters), rules.RunFor
	}
	turn := l.core.Keep(granted, run, t, engine.For{
		Name: a.Name, Fixed: a.Request.Fixed, Copies: engine.NewCopies(a.Request.Replicas, confirmed),
	}, now)
	if run.Turns > 0 {
		l.begins(turn.Hold())
	}
	l.settle(a, turn, nil)
	if a.ticket.Owner != "" {
		l.joins(a)
	}
}

// joins makes the waiters of a lock ask at once, if one of them names the owner that has the lock
// now: it may join the hold. l.mu must be held.
func (l *Locker) joins(a *attempt) {
	if ln := l.lines[a.Keys.Record()]; ln != nil && ln.owners[a.ticket.Owner] > 0 {
		ln.enterAt(time.Now())
	}
}

// grantedInPassing handles a grant in an answer to a request that was about other tickets of this
// client. l.mu must be held.
func (l *Locker) grantedInPassing(keys lua.Keys, g *lua.OtherGrant, sent time.Time) {
	if !l.core.Issued(g.Ticket) {
		return
	}
	a := l.attempts[g.Ticket.Counter]
	switch {
	case a == nil:
		l.unwanted(keys, g.Ticket)
		return
	case a == hadLock || !a.is(keys, g.Ticket):
		return
	}
	now := time.Now()
	step := a.GrantedInPassing(&g.Grant, sent, now, a.requests.Open())
	if step.Do == rules.Take {
		l.give(a, g.Grant, g.Run, step.Term, nil, now)
		return
	}
	l.carryOut(a, step, &HeldError{Owner: a.ticket.Identity(), Remaining: g.Remaining})
}
