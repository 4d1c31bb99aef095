package lua

import (
	"fmt"
	"strings"
	"time"
)

// The times of the protocol. Here alone they are said: the scripts include them as terms.lua.
const (
	// Liveness is how long a waiter stays in line without a heartbeat. Clients send three in
	// that time.
	Liveness = 15 * time.Second

	// Claim is the longest time a grant told by message lasts unless its waiter confirms it:
	// min(Claim, lease). A process that dies unconfirmed costs its successors so much.
	Claim = 3 * time.Second

	// Gathering is how long nobody is granted a lock whose places were lost. It is longer than
	// the time between two heartbeats, so that every waiter can return to its place first.
	Gathering = 6 * time.Second

	// MarkTTL is how long a mark lasts at most. A retired ticket has one for so long: no request of
	// it is executed later.
	MarkTTL = time.Minute

	// TokenTTL is how long the server remembers a token at least: far longer than clients do, so
	// that a token which expired is never taken for one that was lost.
	TokenTTL = 10 * time.Minute

	// blindFor is how long a client counts as reachable that the server does not see. It asks once a
	// second.
	blindFor = 3 * time.Second

	// lineTTL is how long a line outlives its last heartbeat: longer than all who stand in it.
	lineTTL = 2 * Liveness

	// touched is how often at most the ends of a line's keys are moved by those who join.
	touched = 5 * time.Second

	// sooner is by how much a record must end before its time for the next in line to be told.
	sooner = 100 * time.Millisecond
)

// What is more than these was not written by a script.
const (
	maxPlace = 1<<52 - 1                   // us: a time of the next centuries
	maxTime  = 1 << 53 / 1000              // ms: the last that is a time in microseconds, too
	maxLease = 10 * 366 * 24 * 3600 * 1000 // ms: ten years
	maxToken = 1<<53 - 2                   // Lua counts to 2^53, and another token must follow
)

// How many elements of a line one script handles.
const (
	mostDropped = 500    // dead waiters at its head
	mostSwept   = 100    // overdue waiters of a full line
	mostFetched = 500    // with one command
	mostLooked  = 10_000 // in search of a position
)

// terms is terms.lua, which declares all of these as locals.
var terms = declare(
	term{"LIVENESS", millis(Liveness)},
	term{"CLAIM", millis(Claim)},
	term{"GATHERING", millis(Gathering)},
	term{"MARK_TTL", millis(MarkTTL)},
	term{"TOKEN_TTL", millis(TokenTTL)},
	term{"BLIND", millis(blindFor)},
	term{"LINE_TTL", millis(lineTTL)},
	term{"TOUCHED", millis(touched)},
	term{"SOONER", millis(sooner)},
	term{"MAX_PLACE", maxPlace},
	term{"MAX_TIME", maxTime},
	term{"MAX_LEASE", maxLease},
	term{"MAX_TOKEN", maxToken},
	term{"DROPS", mostDropped},
	term{"SWEEPS", mostSwept},
	term{"FETCHES", mostFetched},
	term{"LOOKS", mostLooked},
)

// term is a number under its name in the scripts.
type term struct {
	name  string
	value int64
}

func declare(all ...term) string {
	names, values := make([]string, len(all)), make([]string, len(all))
	for i, t := range all {
		names[i], values[i] = t.name, fmt.Sprint(t.value)
	}
	return "local " + strings.Join(names, ", ") + " = " + strings.Join(values, ", ") + "\n"
}
