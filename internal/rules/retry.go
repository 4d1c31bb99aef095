package rules

import (
	"errors"
	"time"

	"github.com/fairlock/locks/lua"
)

// Late is how long after its client gave it up a request may be executed: the server keeps the mark
// of a retired ticket for as long.
const Late = lua.MarkTTL

// Patience is for how long a leave of a ticket with that lease is repeated. Any unanswered request
// of the ticket may have got a lease, or a place in line.
func Patience(lease time.Duration) time.Duration { return max(lease, lua.Liveness) + Late }

// InsistFor is for how long a call that does not wait repeats a request that fails unanswered.
// Pooled connections may have died unnoticed: such failures come at once.
const InsistFor = time.Second

// ErrUnreachable says that too few nodes of a quorum answer.
var ErrUnreachable = errors.New("no majority of the nodes can be reached")

// Retryable reports whether the same request may succeed a moment later.
func Retryable(err error) bool {
	return (!lua.Answered(err) || lua.Passing(err)) && !lua.Closed(err)
}

// Shortly reports whether what kept a request from its end may be over in no time: a connection that
// has ended, a pool that is full, or what the server says, as of a slot that moves.
func Shortly(err error) bool { return lua.Answered(err) || lua.Severed(err) || lua.Busy(err) }

// Patient reports whether a call that waits goes on after a request failed with err. answered says
// that the server has answered the call before. Without that, the call goes on only if the request
// may have been executed, the client was merely busy, or the keys are on their way to another node.
func Patient(answered bool, err error) bool {
	waits := answered || lua.Busy(err) || lua.Unanswered(err) || lua.Moving(err)
	return waits && Retryable(err)
}
