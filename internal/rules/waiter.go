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
	Gone          // the leave was answered or given up, or there was nothing to leave
)

// Waiter is a ticket of a call that waits for its lock, or tries once.
type Waiter struct {
	Lease    time.Duration // what it asks for
	Try      bool          // its call does not wait
	Answered bool          // the server has answered its call before
	Began    time.Time     // before its first request was sent

	Phase    Phase
	OnServer bool      // the server said that it waits, or has the lock
	Place    lua.Place // in line, the first that it was given; 0: not known
	Unplaced int8      // requests that went out without a place: 0, 1, or 2 for more
	Shown    int64     // the largest token that it was shown while it waited
	Forced   int64     // the largest token of its own that force ended, as a message told
	Last     ClockPair
	Late     int8 // grants that came when their claim had run out
}

// ClockPair ties the two clocks: a request sent at local time Sent was executed at server time At.
type ClockPair struct {
	Sent    time.Time
	At      lua.Micros // 0: nothing was answered yet
	Session uint64     // of the subscription at that time
}

// Claim is how long a grant told by message lasts unless it is confirmed.
func (w *Waiter) Claim() time.Duration { return min(lua.Claim, w.Lease) }

// Enter returns what the ticket says of itself in the request that goes out now. first says that
// the server may turn the ticket away: a ticket that was let into the line is not turned away
// later. mend asks the server to put the ticket where it belongs: if several requests went out
// without a place, one that is executed late may put the ticket elsewhere.
func (w *Waiter) Enter() (place lua.Place, first, mend bool) {
	if w.Place == 0 {
		w.Unplaced = min(2, w.Unplaced+1)
	}
	return w.Place, w.Last.At == 0, w.Place != 0 && w.Unplaced > 1
}

// Told takes in what an answer, which came at now, says of the ticket: t, and the largest token
// given. s is when the request was sent and executed. open is what the ticket's Requests say.
func (w *Waiter) Told(t *lua.TicketState, token int64, s ClockPair, now time.Time, open bool) Step {
	switch {
	case w.Phase == Gone && (t.Status == lua.Waiting || t.Status == lua.Granted):
		// Its leave was answered. Then the server executed a late request, which undid the leave.
		w.Phase = Leaving
		return Step{Do: LeaveLine}
	case w.Phase != Waiting:
		return Step{} // the answer is older than that, or a leave on its way will undo it
	}
	switch t.Status {
	case lua.Granted:
		w.OnServer = true
		if t.Grant.Token <= w.Forced {
			return w.end(Forced, open)
		}
		if t.Grant.Token <= w.Shown && s.At < w.Last.At { // a later answer says that this is over
			return Step{Do: Ask}
		}
		return w.granted(&t.Grant, s.Sent, now, open)
	case lua.Waiting:
		w.OnServer = true
		w.Shown = max(w.Shown, token)
		if s.At >= w.Last.At { // answers may overtake one another
			w.Last = s
		}
		if w.Place == 0 || t.Place < w.Place { // of two places, the first counts
			w.Place = t.Place
		}
		return Step{Do: Wait}
	case lua.Taken:
		return w.end(Refused, open)
	case lua.Full:
		return w.end(Full, open)
	case lua.Gone: // the call did not make it leave
		return w.end(Evicted, open)
	case lua.ForceEnded: // the grant went unheard
		return w.end(Forced, open)
	}
	return Step{}
}

// granted takes in the grant in an answer. sent is when the answered request was sent.
func (w *Waiter) granted(g *lua.Grant, sent, now time.Time, open bool) Step {
	span := max(w.Lease, g.Remaining) // it is more if the server's clock was set back meanwhile
	if claim := w.Claim(); g.Remaining <= claim {
		span = claim
	}
	term := Term{span, sent.Add(g.Remaining)}
	switch {
	case !Passed(term.TrustEnds(), now):
		w.Phase = Granted
		return Step{Do: Take, Term: term}
	case w.Try:
		return w.end(TooLate, open)
	}
	return Step{Do: Ask, At: term.Ends} // too short to be of use
}

// GrantedInPassing takes in a grant in the answer to a request that was not about this ticket. sent
// is when that request was sent.
func (w *Waiter) GrantedInPassing(g *lua.Grant, sent, now time.Time, open bool) Step {
	switch {
	case w.Phase == Gone:
		w.Phase = Leaving
		return Step{Do: LeaveLine}
	case w.Phase == Waiting && g.Token > w.Shown:
		w.OnServer = true
		return w.granted(g, sent, now, open)
	}
	return Step{}
}

// Follows takes in that the ticket has a turn on the hold of another ticket of its client, which is
// ahead of it in line.
func (w *Waiter) Follows() {
	w.OnServer = true
	w.Phase = Granted
}

// TurnedAway takes in that the line is full for a ticket for which no request went out.
func (w *Waiter) TurnedAway() Step {
	if w.Phase != Waiting {
		return Step{}
	}
	return w.end(Full, false)
}

// Unanswered takes in that a request failed with err, at now.
func (w *Waiter) Unanswered(err error, now time.Time, open bool) Step {
	switch {
	case w.Phase != Waiting: // it was granted the lock meanwhile, or it has left
		return Step{}
	case w.Try && (!lua.Unanswered(err) && !lua.Moving(err) || now.Sub(w.Began) > InsistFor):
		return w.end(Failed, open)
	case !w.Try && !Patient(w.OnServer || w.Answered, err):
		return w.end(Failed, open)
	}
	return Step{Do: Ask}
}

// GivesUp takes in that the caller does not wait any more: its context or its time has ended, it
// panicked, or the Locker was closed. If the lock has come at this very moment, it is given back.
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

// end ends the wait. The ticket has to leave if the server may know of it, now or later.
func (w *Waiter) end(why Why, open bool) Step {
	leave := w.OnServer || open
	if w.Phase = Gone; leave {
		w.Phase = Leaving
	}
	return Step{Do: End, Why: why, Leave: leave}
}

// Leave is the ticket's part of a leave that is sent now.
func (w *Waiter) Leave(ticket lua.Ticket, open bool) lua.LeaveTicket {
	return lua.LeaveTicket{Ticket: ticket, Place: w.Place, Retire: open}
}

// Left takes in that the leave was answered, or can no longer matter. If the ticket had the lock,
// that is the leave of its Hold.
func (w *Waiter) Left() { w.Phase = Gone }

// Unknown is the leave of a ticket that no call knows any more, though the server gave it the lock.
// The leave does not repeat the token of that grant, because the server would believe it.
func Unknown(ticket lua.Ticket) lua.LeaveTicket { return lua.LeaveTicket{Ticket: ticket, Retire: true} }
