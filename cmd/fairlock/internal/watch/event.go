// Package watch tells the life of a lock as events. It gets them from messages, overheard when
// something happens, and from the differences between looks.
package watch

import "time"

// Kind says what happened.
type Kind string

// What can happen to a lock.
const (
	Standing  Kind = "standing"  // how the lock is at the beginning, and after events may have been missed
	Granted   Kind = "granted"   // a caller has the lock
	Released  Kind = "released"  // the holder gave the lock back
	Expired   Kind = "expired"   // the holder's lease ended, and the holder had not given the lock back
	Ended     Kind = "ended"     // released or expired
	Forced    Kind = "forced"    // the lock was forced: the holder lost it
	Unseen    Kind = "unseen"    // the lock was held and given back between two looks
	Expiring  Kind = "expiring"  // two thirds of the lease are over, and the holder has not renewed it
	Renewed   Kind = "renewed"   // the holder has renewed after all
	Forgotten Kind = "forgotten" // the server lost data, and keeps the lock for its holder
	Came      Kind = "came"      // a waiter is in line
	Left      Kind = "left"      // a waiter gave up, or its process died
	Evicted   Kind = "evicted"   // a waiter was sent away
	Gone      Kind = "gone"      // a waiter had the lock between two looks, or left
	Damaged   Kind = "damaged"   // something in the keys of the lock makes no sense: Note says what
)

// Event is one thing that happened. Fields that do not apply to its Kind, or are not known, are
// zero.
type Event struct {
	At        time.Time     `json:"at"` // when it was noticed, by the watcher's clock
	Lock      string        `json:"lock"`
	Kind      Kind          `json:"event"`
	ID        string        `json:"id,omitempty"` // the id of a waiter, for evict
	Owner     string        `json:"owner,omitempty"`
	Note      string        `json:"note,omitempty"`
	Token     int64         `json:"token,omitempty"`
	Position  int           `json:"position,omitempty"` // in line, 1 being next
	Waited    time.Duration `json:"-"`                  // by a waiter, or before the grant
	Held      time.Duration `json:"-"`                  // by the holder
	Remaining time.Duration `json:"-"`                  // of the lease
	Waiting   int           `json:"waiting"`            // the length of the line, as far as it is known
}

// wire is an Event for programs, with durations in whole milliseconds, and in base64 what is not
// UTF-8.
type wire struct {
	Event
	Lock64    string `json:"lock_base64,omitempty"`
	Owner64   string `json:"owner_base64,omitempty"`
	Note64    string `json:"note_base64,omitempty"`
	Waited    int64  `json:"waited_ms,omitempty"`
	Held      int64  `json:"held_ms,omitempty"`
	Remaining int64  `json:"remaining_ms,omitempty"`
}
