package lua

import (
	"regexp"
	"strconv"
	"time"
)

// The times of the protocol, for Go and for the scripts. They are stated nowhere else.
const (
	// Liveness is how long a waiter stays in line without a heartbeat. Clients send three in
	// that time.
	Liveness = 15 * time.Second

	// Claim is the longest time for which a grant told by message lasts unless its waiter confirms
	// it: min(Claim, lease). A process that dies unconfirmed delays its successors by that.
	Claim = 3 * time.Second

	// Gathering is how long nobody is granted a lock whose places were lost. It is longer than
	// the time between two heartbeats, so that every waiter can return to its place first.
	Gathering = 6 * time.Second

	// MarkTTL is how long a mark lasts at most. A retired ticket's mark lasts that long, because a
	// request of the ticket may be executed that late.
	MarkTTL = time.Minute

	// TokenTTL is how long the server remembers a token at least. That is far longer than clients
	// do, so that an expired token is never taken for a lost one.
	TokenTTL = 10 * time.Minute

	// blindFor is how long a client counts as reachable although the server does not see its
	// subscription. Such a client asks once a second.
	blindFor = 3 * time.Second

	// lineTTL is how long a line outlives its last heartbeat: longer than any waiter in it.
	lineTTL = 2 * Liveness

	// touched is how often, at most, waiters that join move the ends of a line's keys.
	touched = 5 * time.Second

	// sooner is how much earlier than expected a record must end for the next in line to be told.
	sooner = 100 * time.Millisecond
)

// The largest numbers that scripts write. Anything larger was not written by a script.
const (
	maxPlace = 1<<52 - 1                   // us: a time of the next centuries
	maxTime  = 1 << 53 / 1000              // ms: the last that can be told in microseconds, too
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

// terms are all of these, by the names that scripts have for them. They go over the wire as
// numbers, which cost a script nothing.
var terms = map[string]int64{
	"LIVENESS":  millis(Liveness),
	"CLAIM":     millis(Claim),
	"GATHERING": millis(Gathering),
	"MARK_TTL":  millis(MarkTTL),
	"TOKEN_TTL": millis(TokenTTL),
	"BLIND":     millis(blindFor),
	"LINE_TTL":  millis(lineTTL),
	"TOUCHED":   millis(touched),
	"SOONER":    millis(sooner),
	"MAX_PLACE": maxPlace,
	"MAX_TIME":  maxTime,
	"MAX_LEASE": maxLease,
	"MAX_TOKEN": maxToken,
	"DROPS":     mostDropped,
	"SWEEPS":    mostSwept,
	"FETCHES":   mostFetched,
	"LOOKS":     mostLooked,
}

var word = regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)*\b`)

// numbered is the text of a script with the numbers in the place of their names.
func numbered(text string) string {
	return word.ReplaceAllStringFunc(text, func(name string) string {
		if n, ok := terms[name]; ok {
			return strconv.FormatInt(n, 10)
		}
		return name
	})
}
