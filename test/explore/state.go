package explore

import (
	"math"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// The world is small: clients with two tickets each. A ticket's number gives its client.
const (
	clients = 3
	tickets = 2 * clients
	admin   = clients // the administrator forces, and does nothing else
)

func clientOf(ticket int8) int8 { return ticket / 2 }

// Times are milliseconds from now.
type ms = int32

const absent ms = math.MinInt32

// These are the spans that the scripts and the clients count with.
const (
	lease    ms = 6000
	claim       = ms(lua.Claim / time.Millisecond)
	liveness    = ms(lua.Liveness / time.Millisecond)
)

// Owners as a record shows them.
const (
	nobody      int8 = 0  // no record
	itself      int8 = 1  // plus the ticket: the ticket is its own owner
	saga        int8 = 50 // the explicit owner
	placeholder int8 = 51
)

// keys is what the server stores of the lock. Tokens and places are numbers whose order alone has a
// meaning; 0 is none.
type keys struct {
	owner  int8
	token  int32 // of the record
	lease  ms
	ends   ms
	holds  [tickets]ms
	kept   ms // the record's field kept
	queue  [tickets + 2]element
	length int8
	lined  ms // end of the queue's key

	waits    [tickets]ms
	retired  [tickets]ms
	forced   [tickets]ms
	blind    [clients]ms
	passed   [clients]ms
	gather   ms
	waitered ms // end of the waiters' key

	last  int32 // the token key
	heard [clients]bool
}

type element struct {
	place  int32
	ticket int8
}

func noKeys() keys {
	k := keys{ends: absent, kept: absent, lined: absent, gather: absent, waitered: absent}
	for i := range tickets {
		k.holds[i], k.waits[i], k.retired[i], k.forced[i] = absent, absent, absent, absent
	}
	for i := range clients {
		k.blind[i], k.passed[i] = absent, absent
	}
	return k
}

// held reports whether a hold has not ended.
func (k *keys) held() bool {
	for _, end := range k.holds {
		if end > 0 {
			return true
		}
	}
	return k.kept > 0
}

func (k *keys) lines(ticket int8) bool {
	for _, e := range k.queue[:k.length] {
		if e.ticket == ticket {
			return true
		}
	}
	return false
}

type verb int8

const (
	enter verb = 1 + iota
	try
	leave
	renew
	reassert
	force
)

// request is a command with its arguments.
type request struct {
	verb   verb
	client int8
	of     [2]asked // enter, leave
	n      int8
	ticket int8  // renew, reassert
	token  int32 // renew, reassert, force, and a leave of one
	seen   int32
	knew   int32 // what the client could have said that it has seen
	some   bool  // enter: the client has other waiters, for whom this does not speak
}

type asked struct {
	ticket int8
	place  int32
	retire bool
	tell   bool // the script should also mend its place
}

type status int8

// What an answer says of a ticket.
const (
	none status = iota // of a leave: it neither held nor waited
	granted
	waits // of a leave: it was in line
	taken
	gone
	heldBy    // of a leave: it held the lock
	wasForced // its ownership was ended by force
)

// reply is the answer to a request.
type reply struct {
	token     int32
	remaining ms
	more      bool
	passing   grant // to another ticket of the client
	of        [2]told
	left      ms // renew, reassert
	done      bool
}

type told struct {
	status    status
	token     int32
	remaining ms
	place     int32
}

type grant struct {
	ticket    int8
	token     int32
	remaining ms
	run       bool // the client's other ticket is next
}

// message is what a script published on a client's channel.
type message struct {
	verb   byte // g(rant), f(orced), h(int)
	client int8
	ticket int8
	token  int32
	claim  ms
	at     ms    // grant: when it was written
	stamp  int16 // and the number of that execution
	run    bool  // grant: the client's other ticket is next
	forged bool  // it names another record, or another lock's ticket of the same number
}

type phase int8

const (
	idle phase = iota
	waiting
	given // it was granted; its caller has no Lease yet
	held
	passed    // its turn is over; the client's other ticket has its turn on the hold
	shut      // held, but its client was closed: the Lease's context has ended
	releasing // it held; its leave is on its way
	leaving   // it waited; its leave is on its way
	followed  // its turn on the other ticket's hold is over; the leave of both is on its way
	finished
)

// attempt is a ticket as its client knows it: the values of the shipped rules, and what the client
// has to do for them.
type attempt struct {
	phase    phase
	wait     rules.Waiter
	hold     rules.Hold
	requests rules.Requests
	token    int32 // of the hold
	until    ms    // until then the client sends the leave again if there is no answer
	asks     bool  // the record did not have the hold: the client reasserts
	run      bool  // the other ticket may have a turn on the hold
	follows  bool  // it has, or had, its turn on the other ticket's hold
	unknown  bool  // the client knows of the ticket only what a message said
	gone     bool  // its caller went without a word and nobody noticed: possible only if a rule is broken
}

type client struct {
	alive  bool
	closed bool
	told   lua.Entered // what the last answer said of when to ask again; for draining only
	seen   int32
	knew   int32 // what it would have seen if it remembered all
	at     [2]attempt
	inbox  [4]message
	mail   int8
}

type flightKind int8

const (
	landed  flightKind = iota
	pending            // a request; its client waits for the answer
	zombie             // a request for which nobody waits
	answer             // an answer on its way
)

// flight is a request or an answer on its way.
type flight struct {
	kind    flightKind
	req     request
	rep     reply
	sent    ms
	lag     ms    // from its sending to its execution
	stamp   int16 // of its execution
	session bool  // sent under the present subscription
	trusted bool  // a release that was sent while the client still trusted the hold
}

// budget is how often each of these may still happen.
type budget struct {
	ticks, faults                               int8
	crash, stop, deaf, delay, lose, late, twice int8
	dropped, doubled, flush, force              int8
	closed, forged, swallowed, tired            int8
}

// state is one state of the world.
type state struct {
	srv     keys
	clients [clients]client
	flights [3]flight
	budget  budget
	truth   truth
	clock   int16 // orders executions
}

// holds reports whether the watchdog takes care of the attempt's grant.
func (a *attempt) holds() bool {
	return a.hold.State == rules.Held && !a.follows && (a.phase == given || a.phase == held || a.phase == passed)
}

// holder returns the ticket whose hold the ticket has, or had, its turn on: usually itself.
func (s *state) holder(ticket int8) int8 {
	if s.attempt(ticket).follows {
		return ticket ^ 1
	}
	return ticket
}

func (s *state) holdOf(ticket int8) *rules.Hold { return &s.attempt(s.holder(ticket)).hold }

func (s *state) attempt(ticket int8) *attempt { return &s.clients[clientOf(ticket)].at[ticket%2] }

// underway reports whether a request of the ticket is on its way while its client waits for the
// answer.
func (s *state) underway(ticket int8) bool {
	for i := range s.flights {
		f := &s.flights[i]
		if (f.kind == pending || f.kind == answer) && f.req.opens(ticket) {
			return true
		}
	}
	return false
}

// mentioned reports whether anything about the ticket is on its way, from its client or to it.
func (s *state) mentioned(ticket int8) bool {
	for i := range s.flights {
		if f := &s.flights[i]; f.kind != landed && (f.req.about(ticket) || f.req.opens(ticket)) {
			return true
		}
	}
	c := &s.clients[clientOf(ticket)]
	for i := range c.inbox[:c.mail] {
		if c.inbox[i].ticket == ticket {
			return true
		}
	}
	return false
}

// opens reports whether an unanswered r may still do something for the ticket.
func (r *request) opens(ticket int8) bool {
	switch r.verb {
	case enter, try:
		return r.about(ticket)
	case renew, reassert:
		return r.ticket == ticket
	default:
		return false
	}
}

// about reports whether an enter or a leave is about the ticket.
func (r *request) about(ticket int8) bool {
	for _, a := range r.of[:r.n] {
		if a.ticket == ticket {
			return true
		}
	}
	return false
}
