package engine

import (
	"context"
	"time"
)

// Observer is told what happens to the locks of a Locker: in order, one event at a time, a moment
// after each event happened. The calls come from a goroutine that serves only the Observer and the
// Logger. So an Observer may call the Locker, Close included. If an Observer blocks or panics, only
// what is told after that is held up. At most 10,000 events and lines wait; more are dropped, and a
// line of the log says how many. Close waits at most a second for what is still to be told.
type Observer interface{ Observe(Event) }

// Kind says what happened.
type Kind int

// What an Observer is told. Every call that succeeds and is no re-entry has one Acquired, and later
// one Released or Lost. So acquired = released + lost + held now. (A call that gave up at the very
// moment when the lock came has GaveUp alone.)
const (
	// Queued: a call waits, at Position. Told once, and again if the call joins the line anew.
	Queued Kind = iota
	// Acquired: a call has the lock, after Took.
	Acquired
	// GaveUp: a call ended without the lock, after Took, because of Err. Told of every call that
	// fails.
	GaveUp
	// Released: an ownership was given back, after Took. With Err, the server did not confirm the
	// release; the lease ends by itself. It is told as the answer comes: the next ownership of this
	// Locker may have been Acquired by then.
	Released
	// Lost: an ownership ended otherwise, after Took, because of Err.
	Lost
	// Renewed: one request prolonged the leases of Locks locks.
	Renewed
	// PassedOver: a waiter was no longer in line when it entered again, and has its old place. The
	// waiter was out of reach, or the server lost data.
	PassedOver
	// Reconnected: the subscription was made again; all waiters ask at once. On a cluster it is the
	// subscription for one lock.
	Reconnected
)

var kinds = [...]string{"queued", "acquired", "gave up", "released", "lost", "renewed", "passed over", "reconnected"}

// String is the kind in words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return "unknown"
	}
	return kinds[k]
}

// Event is one thing that happened. Fields that do not apply to its Kind are zero.
type Event struct {
	Kind     Kind
	At       time.Time       // when it happened
	Context  context.Context // of the call: Queued, Acquired, GaveUp; of the Lease: Released, Lost
	Name     string          // of the lock; "" for Renewed and Reconnected
	Owner    string          // for Queued only if the call names one; not for GaveUp
	Token    int64
	Position int           // in line when the call joined; 1 is next; 0: not known
	Took     time.Duration // time waited: Acquired, GaveUp; time held: Released, Lost
	Locks    int
	Err      error
}
