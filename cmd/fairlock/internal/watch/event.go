// Package watch is how a lock's life is told as events: from what is overheard the moment it
// happens, and from the differences between looks.
package watch

import "time"

// Kind says what happened.
type Kind string

// What can happen to a lock.
const (
	Standing  Kind = "standing"  // how it is at the beginning, and after anything may have been missed
	Granted   Kind = "granted"   // somebody has it
	Released  Kind = "released"  // its holder gave it back
	Expired   Kind = "expired"   // its holder's lease ended without that
	Ended     Kind = "ended"     // one or the other
	Forced    Kind = "forced"    // its holder was made to lose it
	Unseen    Kind = "unseen"    // somebody had it between two looks
	Expiring  Kind = "expiring"  // two thirds of the lease are over and nobody has renewed it
	Renewed   Kind = "renewed"   // it was, after that
	Forgotten Kind = "forgotten" // the server lost data and keeps it for who had it
	Came      Kind = "came"      // a waiter is in line
	Left      Kind = "left"      // a waiter gave up, or its process died
	Evicted   Kind = "evicted"   // a waiter was sent away
	Gone      Kind = "gone"      // a waiter had the lock between two looks, or left
	Damaged   Kind = "damaged"   // something in its keys makes no sense: Note says what
)

// Event is one thing that happened. What does not apply to its Kind, or is not known, is zero.
type Event struct {
	At        time.Time     `json:"at"` // when it was noticed, by the clock of who watches
	Lock      string        `json:"lock"`
	Kind      Kind          `json:"event"`
	ID        string        `json:"id,omitempty"` // of a waiter, for evict
	Owner     string        `json:"owner,omitempty"`
	Note      string        `json:"note,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Position  int           `json:"position,omitempty"` // in line, 1 being next
	Waited    time.Duration `json:"-"`                  // by a waiter, or before the grant
	Held      time.Duration `json:"-"`                  // by the holder
	Remaining time.Duration `json:"-"`                  // of the lease
	Waiting   int           `json:"waiting"`            // the length of the line, as far as is known
}

// wire is an Event for programs, with durations in whole milliseconds.
type wire struct {
	Event
	Waited    int64 `json:"waited_ms,omitempty"`
	Held      int64 `json:"held_ms,omitempty"`
	Remaining int64 `json:"remaining_ms,omitempty"`
}
