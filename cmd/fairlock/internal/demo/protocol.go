package demo

import (
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/server"
)

// The demo and its workers talk in lines of JSON. Requests go to each worker's standard input;
// events come from the standard output of all of them.
//
// That output is one pipe. A line is far shorter than what the kernel writes in one piece, so lines
// come in the order in which they were written, over all processes: if a worker says "left" before
// it unlocks, this arrives before the next worker says "entered". No clock is needed to see that
// two never overlap.

// action says what a request asks for.
type action string

const (
	doOpen    action = "open"     // connect to Server; Prefix
	doJob     action = "job"      // take Lock, work for Work, until told to finish if Hold is set, unlock
	doFinish  action = "finish"   // Who: end of the work, or one step on
	doNest    action = "nest"     // take Lock three deep and come back, a step at each finish
	doBuyers  action = "buyers"   // send Numbers to Lock, spread over Work, with at most Most waiting
	doAnswer  action = "answer"   // the answer to Who's look or sale: OK, Stock
	doSoldOut action = "sold out" // waiting buyers may go home
	doStale   action = "stale"    // sell with an old Token, without the lock
)

// request is a line to a worker.
type request struct {
	Do      action
	Server  server.Connection `json:",omitzero"`
	Prefix  string            `json:",omitempty"`
	Lock    string            `json:",omitempty"`
	Who     string            `json:",omitempty"`
	Work    time.Duration     `json:",omitempty"`
	Hold    bool              `json:",omitempty"`
	Numbers []int             `json:",omitempty"`
	Most    int               `json:",omitempty"`
	OK      bool              `json:",omitempty"`
	Stock   int               `json:",omitempty"`
	Token   int64             `json:",omitempty"`
}

// kind says what an event is.
type kind string

const (
	onReady   kind = "ready"   // the worker is connected
	onEntered kind = "entered" // the worker holds Lock, with Token; it had asked at Asked
	onDeeper  kind = "deeper"  // the worker holds it at Depth
	onBack    kind = "back"    // the worker is back at Depth
	onLeft    kind = "left"    // the worker is about to unlock Lock
	onDone    kind = "done"    // the worker has unlocked
	onLook    kind = "look"    // how many pieces are left?
	onSale    kind = "sale"    // there are Stock left now
	onTold    kind = "told"    // Who went home with Result, after waiting Waited
	onFailed  kind = "failed"  // something went wrong: Result
	onEnded   kind = "ended"   // the process has ended; its parent says so
)

// The results with which a buyer goes home.
const (
	bought      = "bought"
	wasSoldOut  = "sold out"
	lineWasFull = "full"
	refused     = "refused"
)

// event is a line from a worker. Times are nanoseconds of the machine's wall clock, and are used
// only to measure.
type event struct {
	Kind   kind
	Worker int           `json:",omitempty"`
	Lock   string        `json:",omitempty"`
	Who    string        `json:",omitempty"`
	Token  int64         `json:",omitempty"`
	Depth  int           `json:",omitempty"`
	Asked  int64         `json:",omitempty"`
	At     int64         `json:",omitempty"`
	Stock  int           `json:",omitempty"`
	Waited time.Duration `json:",omitempty"`
	Result string        `json:",omitempty"`
}

// waited returns how long the worker had to wait for the lock that it entered.
func (e event) waited() time.Duration { return time.Duration(e.At - e.Asked) }

// now returns the time in the form that events use.
func now() int64 { return time.Now().UnixNano() }
