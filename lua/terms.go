package lua

import (
	"strconv"
	"strings"
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

	// TokenKept is how long the server remembers a token at least, once its hold has ended. That
	// is far longer than clients do, so that an expired token is never taken for a lost one.
	TokenKept = 10 * time.Minute

	// TokenTTL is for how long the token of a new hold is written, beyond two leases. So a hold
	// that lasts need not have its token written again for 6 minutes less its lease.
	TokenTTL = TokenKept + 6*time.Minute

	// blindFor is how long a client counts as reachable although the server does not see its
	// subscription. Such a client asks once a second.
	blindFor = 3 * time.Second

	// lineTTL is how long a line outlives its last heartbeat: longer than any waiter in it.
	lineTTL = 2 * Liveness

	// touched is how often, at most, waiters that join move the ends of a line's keys.
	touched = 5 * time.Second

	// sooner is how much earlier than expected a record must end for the next in line to be told.
	sooner = 100 * time.Millisecond

	// meanwhile is longer than a script takes: what ends sooner may end while the script runs.
	meanwhile = time.Second
)

// MaxRun is the most tickets that may have turns on the hold of another.
const MaxRun = 64

// KnowsRuns ends the id of a client that understands runs. The scripts tell other clients of plain
// grants only.
const KnowsRuns = "+"

// The largest numbers that scripts write. Anything larger was not written by a script. maxLease is
// ten times what a call may ask for: an Extend adds a margin to that, and a hold lasts longer than
// its lease after a step back of the server's clock.
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
	"MEANWHILE": millis(meanwhile),
	"MAX_PLACE": maxPlace,
	"MAX_TIME":  maxTime,
	"MAX_LEASE": maxLease,
	"MAX_TOKEN": maxToken,
	"DROPS":     mostDropped,
	"SWEEPS":    mostSwept,
	"FETCHES":   mostFetched,
	"LOOKS":     mostLooked,
	"RUN":       MaxRun,

	"LEASE_DIGITS": int64(len(strconv.FormatInt(maxLease, 10))),
}

// numbered is the text of a script with the numbers in the place of their names.
func numbered(text string) string {
	var to strings.Builder
	written, word := 0, -1 // text[:written] is done; a word begins at word
	for i := 0; i <= len(text); i++ {
		switch {
		case i < len(text) && inWord(text[i]):
			if word < 0 {
				word = i
			}
		case word >= 0:
			if n, ok := terms[text[word:i]]; ok {
				to.WriteString(text[written:word])
				to.WriteString(strconv.FormatInt(n, 10))
				written = i
			}
			word = -1
		}
	}
	if written == 0 {
		return text
	}
	to.WriteString(text[written:])
	return to.String()
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
