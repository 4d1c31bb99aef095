package reentrant

import (
	"sync/atomic"

	"github.com/fairlock/locks/lua"
)

// Requests remembers whether the server might yet execute a request of a ticket: one that is under way or one whose
// answer was lost. Such a ticket is retired when it leaves, or a late request would make it a ghost.
type Requests struct {
	underway atomic.Int32
	lost     atomic.Bool
	executed atomic.Bool // of the one whose answer is still to come it is known
}

// Sent notes a request that goes out; Done must follow.
func (r *Requests) Sent() { r.underway.Add(1) }

// Done notes how it ended.
func (r *Requests) Done(err error) {
	if lua.Unanswered(err) {
		r.lost.Store(true)
	}
	r.underway.Add(-1)
}

// Executed notes that a ticket of which nothing was answered yet has the lock: if one request is all that went out, that
// was executed. Its end is noted with [Requests.EnterDone], and none like it may be sent any more.
func (r *Requests) Executed() {
	if !r.lost.Load() && r.underway.CompareAndSwap(1, 0) {
		r.executed.Store(true)
	}
}

// EnterDone is Done for a request that Executed may have been about.
func (r *Requests) EnterDone(err error) {
	if !r.executed.Swap(false) {
		r.Done(err)
	}
}

// Underway reports whether one went out to which nothing has come back yet.
func (r *Requests) Underway() bool { return r.underway.Load() > 0 }

// Open reports whether one may still be executed.
func (r *Requests) Open() bool { return r.Underway() || r.lost.Load() }
