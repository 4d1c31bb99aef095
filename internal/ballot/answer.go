package ballot

import (
	"time"

	"github.com/fairlock/locks/lua"
)

// Status is what a node replies to an enter.
type Status string

// The replies.
const (
	Granted Status = "granted" // the ticket has the node's vote
	Waits   Status = "waits"   // it stands in line
	Held    Status = "held"    // a try found somebody else
	Full    Status = "full"    // more wait than the call allows
	Gone    Status = "gone"    // the ticket has left
)

// Answer is the reply of one node to an enter.
type Answer struct {
	Status   Status
	Now      lua.Micros
	Left     time.Duration // Granted: of the vote; else for how long nobody can have it
	Place    lua.Place
	Position int // Waits: 1 is next; Held, Full: how many wait
	Holder   string

	Token int64      // Granted: the vote's; else the largest so far
	Since lua.Micros // Granted

	Older   bool // Granted: somebody older stands in line
	Pending bool // the holder is undecided
}

// ticketState is the answer in the words of the rules.
func (a *Answer) ticketState() lua.TicketState {
	if a.Status == Granted {
		return lua.TicketState{Status: lua.Granted, Grant: lua.Grant{Token: a.Token, Since: a.Since, Remaining: a.Left}}
	}
	return lua.TicketState{Status: lua.Waiting, Place: a.Place, Position: a.Position}
}

// PassedOver reports whether a node had the call in its line before it said that the call is
// missing; at is when it said so, by its own clock. Else that answer is older than the one that
// told of the place, or the call's first request was lost or is under way.
func (b *Ballot) PassedOver(i int, at lua.Micros) bool {
	g := &b.legs[i]
	return g.at > 0 && g.Last.At < at
}
