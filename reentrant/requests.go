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

// Open reports whether one may still be executed.
func (r *Requests) Open() bool { return r.underway.Load() > 0 || r.lost.Load() }
