package rules

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// Phase is where a Waiter stands in its life.
type Phase int8

// The phases of a Waiter.
const (
	Waiting Phase = iota
	Granted       // it has the lock; its life goes on in a Hold
	Leaving       // its call has ended; the leave is on its way
	Gone          // and was answered, or there was nothing to leave
)

// Waiter is a ticket of a call that waits for its lock, or tries once.
type Waiter struct {
	Lease time.Duration // what it asks for
	Try   bool          // its call does not wait
	Again bool          // its call had a ticket in line before
	Began time.Time     // before its first request was sent

	Phase    Phase
	Seen     bool      // an answer said that it waits, or has the lock
	Place    lua.Place // in line, the first that it was given; 0: not known
	Unplaced int8      // requests that went out before it was: 0, 1, or 2 for more
	Shown    int64     // the largest token that an answer showed it while it waited
	Forced   int64     // the largest token of its own that force ended, as a message told
	Last     Sighting
	Late     int8 // grants that came when their claim had run out
}

// Sighting ties the two clocks: a request sent at local time Sent was executed at server time At.
type Sighting struct {
	Sent    time.Time
	At      lua.Micros // 0: nothing was answered yet
	Session uint64     // of the subscription at that time
}

// Claim is how long a grant told by message lasts unless it is confirmed.
func (w *Waiter) Claim() time.Duration { return min(lua.Claim, w.Lease) }

// Asks is what the ticket says of itself in the request that goes out now. Of a first request
// the server may turn it away; who was let into the line is not turned away later. A request that
// went out without a place may be executed late and put the ticket elsewhere: then the server is
// asked to mend that.
func (w *Waiter) Asks() (place lua.Place, first, mend bool) {
	if w.Place == 0 {
		w.Unplaced = min(2, w.Unplaced+1)
	}
	return w.Place, w.Last.At == 0, w.Place != 0 && w.Unplaced > 1
}

// Told takes in what an answer, which came at now, says of the ticket: t, and the largest token
// given. s is when the request was sent and executed. open is of the ticket's Requests.
func (w *Waiter) Told(t *lua.TicketState, token int64, s Sighting, now time.Time, open bool) Step {
	switch {
	case w.Phase == Gone && (t.Status == lua.Waiting || t.Status == lua.Granted):
		// Its leave was answered, and undone by a request that was executed after it.
		w.Phase = Leaving
		return Step{Do: LeaveLine}
	case w.Phase != Waiting:
		return Step{} // what is said of it is older, or undone by a leave that is on its way
	}
	switch t.Status {
	case lua.Granted:
		w.Seen = true
		if t.Grant.Token <= w.Forced {
			return w.end(Forced, open)
		}
		if t.Grant.Token <= w.Shown && s.At < w.Last.At { // forced since, and a later answer came first
			return Step{Do: Ask}
		}
		return w.granted(&t.Grant, s.Sent, now, open)
	case lua.Waiting:
		w.Seen = true
		w.Shown = max(w.Shown, token)
		if s.At >= w.Last.At { // answers may overtake one another
			w.Last = s
		}
		if w.Place == 0 || t.Place < w.Place { // of two it arrived at the first
			w.Place = t.Place
		}
		return Step{Do: Wait}
	case lua.Held:
		return w.end(Refused, open)
	case lua.Full:
		return w.end(Full, open)
	case lua.Gone: // of its own accord it has not left
		return w.end(Evicted, open)
	}
	return Step{}
}

// granted takes in that an answer to a request sent then says that the ticket has the lock.
func (w *Waiter) granted(g *lua.Grant, sent, now time.Time, open bool) Step {
	span := w.Lease
	if claim := w.Claim(); g.Remaining <= claim {
		span = claim
	}
	term := Term{span, sent.Add(g.Remaining)}
	switch {
	case term.TrustEnds().After(now):
		w.Phase = Granted
		return Step{Do: Take, Term: term}
	case w.Try:
		return w.end(TooLate, open)
	}
	return Step{Do: Ask, At: term.Expires} // too short to be of use
}

// GrantedInPassing takes in a grant in the answer to a request, sent then, that was not about this
// ticket.
func (w *Waiter) GrantedInPassing(g *lua.Grant, sent, now time.Time, open bool) Step {
	switch {
	case w.Phase == Gone:
		w.Phase = Leaving
		return Step{Do: LeaveLine}
	case w.Phase == Waiting && g.Token > w.Shown:
		w.Seen = true
		return w.granted(g, sent, now, open)
	}
	return Step{}
}

// Unanswered takes in that a request failed with err, at now.
func (w *Waiter) Unanswered(err error, now time.Time, open bool) Step {
	switch {
	case w.Phase != Waiting: // granted meanwhile, by the answer to another request; or it has left
		return Step{}
	case w.Try && (!lua.Unanswered(err) && !lua.Moving(err) || now.Sub(w.Began) > InsistFor):
		return w.end(Failed, open)
	case !w.Try && !Patient(w.Seen || w.Again, err):
		return w.end(Failed, open)
	}
	return Step{Do: Ask}
}

// GivesUp takes in that the caller does not wait any more: its context or its time has ended, it
// panicked, or the Locker was closed. The lock may have come at this very moment.
func (w *Waiter) GivesUp(open bool) Step {
	switch w.Phase {
	case Waiting:
		return w.end(GaveUp, open)
	case Granted:
		return Step{Do: GiveBack}
	default:
		return Step{}
	}
}

// end ends the wait. The ticket has to leave if something of it may be with the server, now or
// later.
func (w *Waiter) end(why Why, open bool) Step {
	leave := w.Seen || open
	if w.Phase = Gone; leave {
		w.Phase = Leaving
	}
	return Step{Do: End, Why: why, Leave: leave}
}

// Leave is the ticket's part of a leave that is sent now.
func (w *Waiter) Leave(ticket lua.Ticket, open bool) lua.LeaveTicket {
	return lua.LeaveTicket{Ticket: ticket, Place: w.Place, Retire: open}
}

// Left takes in that the leave was answered, or can no longer matter; that of its Hold, if it had
// the lock.
func (w *Waiter) Left() { w.Phase = Gone }

// Unknown is the leave of a ticket that no call knows any more, though the server gave it the
// lock. Which token that had is not repeated to the server, which would believe it.
func Unknown(ticket lua.Ticket) lua.LeaveTicket { return lua.LeaveTicket{Ticket: ticket, Retire: true} }
