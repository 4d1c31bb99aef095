package majority

import (
	"time"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/rules"
)

// masters is how many nodes there are, and need a majority.
const (
	masters = 3
	need    = 2
)

// state is the whole world at one instant.
type state struct {
	now    int64
	nodes  [masters]node
	down   [masters]outage
	calls  [most]call
	air    []msg
	pushes []push // in the order in which a node sent them
	budget budget
	truth  truth
}

// outage is what is wrong with a node that does not answer.
type outage int8

const (
	up    outage = iota
	hangs        // it goes on later
	dead         // for good
)

// stage is where a call stands.
type stage int8

const (
	absent  stage = iota // no such call
	idle                 // it has not begun
	waiting              // as its Ballot says
	holding
	leaving // its release is under way
	over
	killed
)

// why is why a call ended without the lock.
type why int8

const (
	_ why = iota
	refused
	filled
	failed
	gaveUp
	timeUp
)

// call is one call of a client of its own.
type call struct {
	*ballot.Ballot
	stage    stage
	got      bool // it has had the lock
	why      why
	split    bool // its try stands in line for a moment
	hold     rules.Hold
	token    int64
	renewed  bool
	listens  bool
	session  [masters]int8
	away     [masters]bool
	release  ballot.Release
	trusted  [masters]bool // of the release: what Has said as it began
	said     [3]int8       // and what the nodes said: had it, had it not, nothing
	round    uint8         // the nodes whose answers a renewal awaits
	renewing bool
	began    int64 // of the renewal
	looked   bool  // since the last step of time its timers went off
	tended   bool  // the same of the hold's
}

// truth is what the judges know.
type truth struct {
	token  int64         // the largest of all Leases
	asked  uint8         // the calls of which a node has executed a request
	ahead  [most]uint8   // by waiting call: those that began after it had its place at a majority
	harm   harm          // what happened
	forced [most]bool    // an administrator has begun to force it
	untold [most]bool    // its client did not hear that it was forced, or taken out of a line
	lost   [masters]bool // the node has lost data
	robbed bool          // a node broke its promise while a holder did not have all votes

	// Of evictions.
	evicted [most]bool  // an administrator has begun one of the call
	told    [most]bool  // a node has told the call of it, or would have
	out     [most]uint8 // the nodes that have taken the call out, and lost nothing since
}

// harm is which promises do not hold any more in this history.
type harm uint8

const (
	unordered harm = 1 << iota // a waiter may have lost its place, or not have been reached
	untimely                   // somebody may have to wait for a timer
	unclean                    // a release may find that the hold is gone
)

// budget is how often what may happen.
type budget struct {
	slow int8 // answers that may be under way while something else happens; negative: all
	lag  int8 // the same of messages: 0 or negative

	ticks, giveUps, kills, lost, late, deaf, restarts, yesterdays, intact, flushes, floods, amnesias, hangs, deaths, forces, evictions, renewals, faults int8
}

// copy makes another state the same. The two have the Ballots in common.
func (s *state) copy(to *state) {
	air, pushes := to.air[:0], to.pushes[:0]
	air, pushes = append(air, s.air...), append(pushes, s.pushes...)
	*to = *s
	to.air, to.pushes = air, pushes
}

func (s *state) clone() *state {
	c := new(state)
	s.copy(c)
	return c
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }
