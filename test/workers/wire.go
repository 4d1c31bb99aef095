package workers

import "time"

// verb is what a command asks for.
type verb string

const (
	open   verb = "open"   // connect; always the first command
	lock   verb = "lock"   // Count goroutines lock Name; each holds it until unlock
	nest   verb = "nest"   // lock Name Depth times, nested
	unlock verb = "unlock" // release what the command Of holds
	// Count goroutines lock and unlock Name, for Rounds turns together or for as long as there is
	// time.
	loop  verb = "loop"
	reach verb = "reach" // answer when the loops have done Rounds more rounds
	// Count goroutines lock and unlock Name until halt, whatever fails, and write to the fence at
	// Addr.
	guard verb = "guard"
	halt  verb = "halt"
)

// command is a line that a worker reads.
type command struct {
	ID      int
	Do      verb
	Addr    string        `json:",omitempty"`
	Cluster []string      `json:",omitempty"` // nodes of a cluster, instead of Addr
	Group   []string      `json:",omitempty"` // sentinels, instead of Addr
	Lease   time.Duration `json:",omitempty"`
	Plain   bool          `json:",omitempty"` // its locks have no line
	Name    string        `json:",omitempty"`
	Note    string        `json:",omitempty"`
	Owner   string        `json:",omitempty"`
	Count   int           `json:",omitempty"`
	Depth   int           `json:",omitempty"`
	Rounds  int           `json:",omitempty"`
	Witness bool          `json:",omitempty"`
	Lasting time.Duration `json:",omitempty"` // how long each round of a loop takes
	Of      int           `json:",omitempty"`
}

// Kind is what an event says.
type Kind string

// These are the kinds of events by which a worker answers a command.
const (
	Opened   Kind = "opened"
	Granted  Kind = "granted"  // a lock is held
	Lost     Kind = "lost"     // a lock that was held may no longer be trusted
	Unlocked Kind = "unlocked" // all that the command held is released
	Done     Kind = "done"     // the loop has done its rounds
	Reached  Kind = "reached"
	Failed   Kind = "failed" // Error says why; nothing is expected to fail
)

// Event is a line that a worker writes.
type Event struct {
	ID    int // of the command
	Kind  Kind
	Token int64  `json:",omitempty"`
	Owner string `json:",omitempty"`
	Depth int    `json:",omitempty"`
	Error string `json:",omitempty"`
	Turns []Turn `json:",omitempty"` // of a loop that has ended
	At    At     `json:"-"`          // when the event arrived here
}

// At is a time of the test's own monotonic clock.
type At = time.Time

// Turn is one round of a loop: a grant and its end. Times are those of the machine's wall clock,
// which all processes share.
type Turn struct {
	Token int64
	Owner string
	Asked time.Time // Lock was called
	Taken time.Time // Lock returned
	Freed time.Time // Unlock was called

	// For a loop at the fence.
	Inside  int64  `json:",omitempty"` // how many writers were there, this one included
	Refused bool   `json:",omitempty"` // the fence had seen this token or a larger one
	Lost    bool   `json:",omitempty"` // the lock was lost before the Unlock, or by it
	Error   string `json:",omitempty"` // of the Lock, if Token is 0, or else of the Unlock
}
