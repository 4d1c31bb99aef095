package workers

import "time"

// verb is what a command asks for.
type verb string

const (
	open   verb = "open"   // first of all: connect
	lock   verb = "lock"   // Count goroutines lock Name; each holds it until unlock
	nest   verb = "nest"   // lock Name Depth times, one within the other
	unlock verb = "unlock" // what the command Of holds
	loop   verb = "loop"   // Count goroutines lock and unlock Name, Rounds times together or for as long as there is time
	reach  verb = "reach"  // answer when the loops have done Rounds more rounds
	guard  verb = "guard"  // Count goroutines lock and unlock Name until halt, whatever fails, and write to the fence at Addr
	halt   verb = "halt"
)

// command is a line that a worker reads.
type command struct {
	ID      int
	Do      verb
	Addr    string        `json:",omitempty"`
	Cluster []string      `json:",omitempty"` // nodes of one, instead of Addr
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
	Lasting time.Duration `json:",omitempty"` // of each round of a loop
	Of      int           `json:",omitempty"`
}

// Kind is what an event says.
type Kind string

// What a worker reports of a command.
const (
	Opened   Kind = "opened"
	Granted  Kind = "granted"  // a lock is held
	Lost     Kind = "lost"     // a lock that was held is not to be trusted any more
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
	Turns []Turn `json:",omitempty"` // of a loop that is done
	At    At     `json:"-"`          // when it arrived here
}

// At is a time of the test's own monotonic clock.
type At = time.Time

// Turn is one round of a loop: a grant and its end, by the machine's wall clock, which all processes share.
type Turn struct {
	Token int64
	Owner string
	Asked time.Time // Lock was called
	Taken time.Time // Lock returned
	Freed time.Time // Unlock was called

	// Of one at the fence.
	Inside  int64  `json:",omitempty"` // how many had come there and not gone, with this one
	Refused bool   `json:",omitempty"` // it had seen this token, or a later one
	Lost    bool   `json:",omitempty"` // the lock was lost before the Unlock, or by it
	Error   string `json:",omitempty"` // of the Lock, if there is no Token, or of the Unlock
}
