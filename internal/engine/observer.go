package engine

import (
	"context"
	"time"
)

// Observer is told what happens to the locks of a Locker: in order, one event at a time, a moment
// after it happened, by a goroutine that does nothing but this and the Logger's lines. So an
// Observer may call the Locker, Close included, and one that blocks or panics holds up nothing
// but what it is told next. Of 10,000 events and lines that wait, more are dropped; a line of the
// log says how many. Close waits a second for what is still to be told.
type Observer interface{ Observe(Event) }

// Kind says what happened.
type Kind int

// What an Observer is told. Of every call that succeeds and is no re-entry there is one Acquired and later one Released or
// Lost, so acquired = released + lost + held now. (A call whose lock came at the very moment it gave up has GaveUp alone.)
const (
	Queued      Kind = iota // a call waits, at Position; told once, and again should it have to join the line anew
	Acquired                // a call has the lock, after Took
	GaveUp                  // a call ended without the lock, after Took, because of Err: of every call that fails
	Released                // an ownership was given back, after Took. Err: the server did not confirm it; the lease ends by itself
	Lost                    // an ownership ended otherwise, after Took, because of Err
	Renewed                 // one request prolonged the leases of Locks locks
	PassedOver              // a waiter was not in line any more when it entered again: it was out of reach, or data was lost. It has its old place
	Reconnected             // the subscription was made again; everybody who waits asks at once. On a cluster, that of one lock
)

var kinds = [...]string{"queued", "acquired", "gave up", "released", "lost", "renewed", "passed over", "reconnected"}

// String is the kind in words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return "unknown"
	}
	return kinds[k]
}

// Event is one thing that happened. What does not apply to its Kind is zero.
type Event struct {
	Kind     Kind
	At       time.Time       // when it happened
	Context  context.Context // of the call: Queued, Acquired, GaveUp; of the Lease: Released, Lost
	Name     string          // of the lock; "" of Renewed and Reconnected
	Owner    string          // of Queued only if the call names it; not of GaveUp
	Token    int64
	Position int           // in line when it joined, 1 being next; 0: not known
	Took     time.Duration // waiting of Acquired and GaveUp, holding of Released and Lost
	Locks    int
	Err      error
}
