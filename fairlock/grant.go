package fairlock

import (
	"fmt"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
)

// message takes in what the server tells this client.
func (l *Locker) message(payload string) {
	received := time.Now()
	m, keys, err := l.core.Message(payload)
	switch {
	case err != nil:
		return
	case m.Forced:
		l.core.Keeper.Forced(m)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.attempts[m.Ticket.Counter]
	switch {
	case a != nil && a != inHold && !a.is(keys, m.Text):
		l.core.Nonsense(fmt.Errorf("message %.200q: its call asks for %s as %s", payload, a.keys.Record(), a.text))
	case a == nil && (m.Evicted || m.Hint):
	case a == nil:
		l.unwanted(keys, m.Ticket)
	case m.Evicted && a.state == waiting:
		l.settle(a, nil, ErrEvicted)
		l.dismiss(a)
	case m.Hint && a.state == waiting:
		l.hurry(a.keys)
	case m.Evicted || m.Hint || a.state != waiting || m.Token <= a.shown:
		// Doubled, or older than an answer that knew better; or it has left and its leave is on its way.
	default:
		l.grantedByMessage(a, m, received)
	}
}

// is reports whether that lock and the whole of that ticket are the attempt's. The scripts tell
// of whatever stands in a line, with the rights of whoever releases: rights to one lock's keys
// must give no other lock away.
func (a *attempt) is(keys lua.Keys, ticket string) bool { return a.keys == keys && a.text == ticket }

// grantedByMessage believes a grant, or asks the server. l.mu must be held.
func (l *Locker) grantedByMessage(a *attempt, m lua.Message, received time.Time) {
	expires, ok := a.believe(m, received, l.earOf(a.keys).up())
	term := reentrant.Term{Span: m.Claim, Expires: expires}
	if ok && term.TrustEnds().After(received) {
		l.memory.Note(a.keys.Record(), m.Token, m.Ticket.Lease) // only now: the server believes what a client says it knows
		if a.last.at == 0 {
			a.requests.Executed() // the grant overtook the answer
		}
		l.settle(a, l.core.Keeper.Begin(a.grant(m.Token, m.At, nil), term, a.request.Fixed), nil)
		return
	}
	if ok {
		// The claim ran out before we heard of it. A ticket that does this twice goes to the end: it must not keep the
		// head from those who listen.
		if a.late++; a.late >= 2 {
			a.late, a.place = 0, 0
		}
	}
	l.enqueue(a)
	l.hurry(a.keys)
}

// believe works out when a claim of which a message told us ends at the server, by our own clock, or says that the server has
// to be asked: also if that hangs on how far the clocks have run apart. It compares the server's clock only with itself.
func (a *attempt) believe(m lua.Message, received time.Time, session uint64) (expires time.Time, ok bool) {
	s := a.last
	if s.at == 0 {
		// Nothing was answered yet. The claim cannot have begun before we asked for the first time.
		return a.began.Add(m.Claim), true
	}
	since := m.At.Sub(s.at)
	if s.session != session || since < 0 || since > received.Sub(s.sent) {
		return time.Time{}, false // another server may speak, or its clock stepped
	}
	unsure := since / 10 // as far as the server's clock and ours may have run apart since then
	expires = s.sent.Add(since - unsure + m.Claim)
	if latest := received.Add(m.Claim); latest.Before(expires) {
		expires = latest
	}
	over := received.Add(reentrant.Margin(m.Claim))
	return expires, expires.After(over) || !expires.Add(unsure).After(over)
}

// granted takes in that an answer to a request sent then says that a holds the lock. l.mu must be held.
func (l *Locker) granted(a *attempt, g lua.Grant, sent time.Time, confirmed *lua.Confirmed) {
	l.memory.Note(a.keys.Record(), g.Token, a.ticket.Lease)
	span := a.ticket.Lease
	if claim := a.ticket.Claim(); g.Remaining <= claim {
		span = claim
	}
	term := reentrant.Term{Span: span, Expires: sent.Add(g.Remaining)}
	if !term.TrustEnds().After(time.Now()) {
		// Too short to be of use. Whoever waits asks again when it is over.
		if a.request.Wait != 0 {
			l.enqueue(a).enterAt(term.Expires)
		} else {
			l.settle(a, nil, &HeldError{Owner: a.ticket.Identity(), Remaining: g.Remaining})
			l.core.Keeper.Go(func() { l.leave(a) }) // it has the lock
		}
		return
	}
	l.settle(a, l.core.Keeper.Begin(a.grant(g.Token, g.Since, confirmed), term, a.request.Fixed), nil)
}

func (a *attempt) grant(token int64, since lua.Micros, confirmed *lua.Confirmed) reentrant.Granted {
	return reentrant.Granted{
		Name: a.name, Keys: a.keys, Ticket: a.ticket, Text: a.text, Token: token, Since: since,
		Requests: a.requests, Copies: reentrant.NewCopies(a.request.Replicas, confirmed),
	}
}

// grantedInPassing takes in a grant to another ticket of this client than the request was about. l.mu must be held.
func (l *Locker) grantedInPassing(keys lua.Keys, g *lua.Grant, sent time.Time) {
	ticket, err := lua.ParseTicket(g.Ticket)
	if err != nil || !l.core.Given(ticket) {
		return
	}
	a := l.attempts[ticket.Counter]
	switch {
	case a == nil:
		l.unwanted(keys, ticket)
	case a != inHold && !a.is(keys, g.Ticket):
	case a.state == waiting && g.Token > a.shown:
		l.granted(a, *g, sent, nil)
	}
}
