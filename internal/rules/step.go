package rules

import "time"

// Step is what a client has to do for a ticket, after an event.
type Step struct {
	Do    Do
	Term  Term      // of Take: how long the ticket has the lock
	At    time.Time // of Ask: not before this; the zero time is at once
	Why   Why       // of End
	Leave bool      // of End: the ticket leaves, again and again until the server answers
}

// Do is what kind of step it is.
type Do int8

// The steps.
const (
	Nothing   Do = iota
	Wait         // the ticket is in line: it takes part in the line's heartbeats
	Ask          // it takes part, and asks the server again
	Take         // it has the lock: its Hold begins
	End          // its call ends without the lock
	LeaveLine    // its call ended before: the ticket leaves once more
	GiveBack     // its call ended, and it has the lock: its Hold is released
)

// Why is why a call ends without the lock, or a hold is lost.
type Why int8

// The reasons.
const (
	_         Why = iota
	Refused       // somebody else has the lock or comes first, and the call does not wait
	Full          // the line is as long as the call allows
	Evicted       // an administrator took the ticket out of the line
	TooLate       // the lock was granted too late to be of use, and the call does not wait
	Forced        // an administrator ended the ownership
	Failed        // a request failed for good
	GaveUp        // the caller does not wait any more
	Expired       // trust ended by itself, before a renewal was answered
	Vanished      // the server no longer has the hold
	Uncertain     // trust ended before it was known what a release did
)
