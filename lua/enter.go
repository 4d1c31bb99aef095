package lua

import (
	"context"
	"time"
)

// MaxTickets is the most tickets that one Enter or Leave may carry.
const MaxTickets = 500

// mostClearing is how often a try asks again while it clears the line of the dead, of 10,000 more.
// It is bounded so that a try ends even where they come as fast as they are dropped.
const mostClearing = 20

// Place is a waiter's position in time: the server's clock at the waiter's first arrival, made
// larger than the place ahead of it. Zero means that there is none yet.
type Place = Micros

// Enter asks for a lock on behalf of some of the client's tickets.
type Enter struct {
	Try      bool          // one ticket, one attempt, no waiting: all there is for a lock without a line
	Some     bool          // other tickets of the client are in line; this request does not say that they are back
	Seen     int64         // largest recent token known of this lock
	Spare    time.Duration // if the server has forgotten Seen: for how long, at least, nobody may take the lock
	Tickets  []EnterTicket // in the order of their places
	Replicas Replicas
}

// EnterTicket is one ticket of an Enter.
type EnterTicket struct {
	Ticket     Ticket
	Place      Place
	MaxWaiters int  // 0: no bound
	Tell       bool // tell its position, every time: the server looks no further than mostLooked, and mends its place there
}

// Status is what an Enter says of a ticket.
type Status string

// What an Enter may answer for a ticket.
const (
	Granted    Status = "granted" // it holds the lock
	Waiting    Status = "waiting" // it is in line
	Taken      Status = "taken"   // of a try: somebody else has the lock or comes first
	Full       Status = "full"    // the line is as long as the ticket allows
	Gone       Status = "gone"    // it was retired
	ForceEnded Status = "forced"  // it held the lock, and force ended that within the last [MarkTTL]
)

// Grant is the lock given to a ticket.
type Grant struct {
	Token     int64
	Remaining time.Duration // from when the request was executed
	Since     Micros        // when the ownership began, in whole milliseconds
}

// OtherGrant is a grant to a ticket that the request did not name.
type OtherGrant struct {
	Ticket Ticket
	Grant
	Run string // see [Counters]
}

// Entered is the answer to an Enter.
type Entered struct {
	Now       Micros
	Token     int64 // the largest token ever given
	Holder    string
	Lease     time.Duration // the holder's lease
	Remaining time.Duration // how long nobody can have the lock unless it is released
	Waiting   int           // length of the line
	Heard     bool          // the server sees a subscriber of the client's channel
	Forgot    bool          // the server had lost Seen
	More      bool          // the lock is free and the line still begins with dead tickets: ask again
	Grant     *OtherGrant   // to a ticket of this client that was not in the request
	Tickets   []TicketState // in the order of the request
	Confirmed *Confirmed    // if Replicas were asked for; see Server.Enter
}

// TicketState is the answer for one ticket.
type TicketState struct {
	Status   Status
	Grant    Grant // if Granted
	Unused   int64 // so many numbers below the grant's token are larger than every token before; 0: not told
	Place    Place // if in line
	Position int   // if in line, and new or asked for: 1 is next; 0: not told
	Returned bool  // it is in line again: it had been passed over, swept, or lost by the server
}

// Enter runs enter.lua: one request, and further ones for a try that finds that the lock has just
// become free: it dropped the dead of a line, or a record that nothing else would end. The further
// ones ask no replicas, since each might wait for them anew: if such a request brings the lock,
// there is no Confirmed. If too few replicas have the first, the lock is not to be had in time.
func (s *Server) Enter(ctx context.Context, keys Keys, e Enter) (Entered, error) {
	var first Ticket
	var lease, owner string
	if len(e.Tickets) > 0 {
		first = e.Tickets[0].Ticket
		lease, owner = first.asks()
	}
	args := s.writing(enterScript, keys, 8+4*len(e.Tickets))
	var mode any = "wait" // boxing a constant costs nothing
	switch {
	case e.Try:
		mode = "try"
	case e.Some:
		mode = "some"
	}
	asked := any(lease)
	spare := asked // usually the same value, boxed already
	if e.Spare != first.Lease {
		spare = millis(e.Spare)
	}
	args = append(args, mode, e.Seen, spare)
	args = append(args, s.caller(keys)...)
	args = append(args, asked, owner)
	for _, t := range e.Tickets {
		args = append(args, t.Ticket.text, int64(t.Place), t.MaxWaiters, flag(t.Tell))
	}
	answer, err := s.enter(ctx, keys, &e, args)
	if got := answer.Confirmed; got != nil && !got.Enough(e.Replicas) {
		return answer, err
	}
	e.Replicas = Replicas{}
	for i := 0; err == nil && e.Try && answer.More && i < mostClearing; i++ {
		answer, err = s.enter(ctx, keys, &e, args)
	}
	return answer, err
}

// enter is one request.
func (s *Server) enter(ctx context.Context, keys Keys, e *Enter, args []any) (Entered, error) {
	reply, got, err := s.replicated(ctx, enterScript, keys, args, e.Replicas)
	if err != nil {
		return Entered{}, err
	}
	answer, err := decodeEntered(reply, e.Tickets)
	answer.Confirmed = got
	return answer, err
}

func decodeEntered(reply []any, tickets []EnterTicket) (Entered, error) {
	r := reader{list: reply}
	answer := Entered{Now: Micros(r.int()), Tickets: make([]TicketState, len(tickets))}
	answer.Token = int64(answer.Now)
	if len(reply) != 1 {
		answer.Token = r.int()
	}
	if len(reply) <= 3 && len(tickets) == 1 {
		r.wrong = r.wrong || answer.Token == 0
		answer.simply(tickets[0].Ticket)
		if len(reply) == 3 {
			r.unused(&answer.Tickets[0])
		}
		return decoded(answer, &r, "enter", reply)
	}
	answer.Holder = ownerName(r.string())
	answer.Lease = r.millis()
	answer.Remaining = r.millis()
	answer.Waiting = int(r.int())
	answer.Heard = r.int() == 1
	answer.Forgot = r.int() == 1
	answer.More = r.int() == 1
	answer.Grant = r.grant()
	for i := range tickets {
		answer.Tickets[i] = r.state()
	}
	return decoded(answer, &r, "enter", reply)
}

// simply fills in what the short reply leaves out: the only ticket of the request has the lock.
func (e *Entered) simply(ticket Ticket) {
	e.Holder, e.Lease, e.Remaining = ticket.Identity(), ticket.Lease, ticket.Lease
	e.Tickets[0] = TicketState{Status: Granted, Grant: Grant{Token: e.Token, Remaining: e.Lease, Since: e.Now - e.Now%1000}}
}

// LeaveTicket is one ticket of a Leave.
type LeaveTicket struct {
	Ticket Ticket
	Place  Place // 0: not known
	Token  int64 // 0: it never held
	Retire bool  // an unanswered request of the ticket might be executed after this one
}

// Left is the answer to a Leave.
type Left struct {
	More  bool        // the lock is free and the line still begins with dead tickets: leave again, with no tickets
	Grant *OtherGrant // to another ticket of this client
	Were  []Was       // in the order of the request
}

// Was is what a ticket was until it left.
type Was string

// What a Leave may answer for a ticket.
const (
	Held    Was = "held"    // it had the lock
	Waited  Was = "waited"  // it was in line
	Forced  Was = "forced"  // its ownership was ended by force, within the last [MarkTTL]
	Neither Was = "neither" // it may have left before, or have been lost
)

// justHeld is the answer to the usual release.
var justHeld = []Was{Held}

// Leave runs leave.lua: one request.
func (s *Server) Leave(ctx context.Context, keys Keys, tickets []LeaveTicket) (Left, error) {
	args := s.writing(leaveScript, keys, 4+4*len(tickets))
	args = append(args, s.caller(keys)...)
	args = append(args, s.freed(keys))
	for _, t := range tickets {
		args = append(args, t.Ticket.text, int64(t.Place), t.Token, flag(t.Retire))
	}
	reply, err := s.run(ctx, leaveScript, args)
	if err != nil {
		return Left{}, err
	}
	return decodeLeft(reply, len(tickets))
}

func decodeLeft(reply []any, n int) (Left, error) {
	if len(reply) == 1 && reply[0] == int64(1) && n == 1 {
		return Left{Were: justHeld}, nil
	}
	r := reader{list: reply}
	left := Left{More: r.int() == 1, Grant: r.grant(), Were: make([]Was, n)}
	for i := range left.Were {
		was := Was(r.string())
		r.wrong = r.wrong || was != Held && was != Waited && was != Forced && was != Neither
		left.Were[i] = was
	}
	return decoded(left, &r, "leave", reply)
}
