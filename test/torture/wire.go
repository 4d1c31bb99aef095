package torture

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// environment is set for processes that are workers; it holds the worker's orders.
const environment = "FAIRLOCK_TORTURE"

// orders are what a worker is told before it starts. Afterwards only the end of its standard input
// tells it anything.
type orders struct {
	Process  string        // its name, and the note of all its tickets
	Addr     string        // of the server, or of a proxy before it
	Resource string        // address of the fenced resource
	Journal  string        // file of its own for what it does
	Seed     uint64        // of what it does
	Timeout  time.Duration // how long its client waits for an answer
	Obeys    bool          // its client obeys the deadlines of contexts
}

// leaseTime is what locks are held for unless a call asks for something else. It is short, so that
// a minute sees many of them end.
const leaseTime = time.Second

// locks are those that all workers use. The first are used most.
var locks = []string{"a", "b", "c", "d", mixed, plain}

const (
	// plain is a lock of the other kind, which has no line: all that is promised of the others
	// holds, but for the order.
	plain = "plain"
	// mixed is held by fixed leases of all lengths up to mixedLease.
	mixed = "mixed"
	// long is the beginning of the names of locks that are held by leases of up to longLease, and
	// waited for by nobody.
	long = "long-"
	// own and prey are the beginnings of the names of a process's own locks. It holds both at once;
	// the saboteur's prey is only the latter, of which nothing is promised: not even he who may
	// write its keys may do harm to another lock.
	own, prey = "own-", "prey-"
	// crew is the beginning of the names of a process's own plain locks.
	crew = "crew-"
)

const (
	mixedLease = 5 * time.Second
	longLease  = 3 * time.Minute
	longLocks  = 16
)

// leaseOf is the longest lease of a lock.
func leaseOf(lock string) time.Duration {
	switch {
	case lock == mixed:
		return mixedLease
	case strings.HasPrefix(lock, long):
		return longLease
	}
	return leaseTime
}

// isPlain reports whether a lock has no line.
func isPlain(lock string) bool { return lock == plain || strings.HasPrefix(lock, crew) }

// record is the key that says who has a lock.
func record(lock string) string {
	if isPlain(lock) {
		return "fairlock:plain:lock:{" + lock + "}"
	}
	return "fairlock:lock:{" + lock + "}"
}

// kind says what happened to a worker.
type kind string

const (
	called   kind = "call"     // it asks for Lock, in the way How, a Locker by number
	got      kind = "got"      // the call has a lease with Owner and Token, trusted until Until
	refused  kind = "refused"  // the call ended without one, because of Why
	kept     kind = "kept"     // the lease is still trusted, now until Until
	over     kind = "over"     // its contexts have ended because of Why, and it could be trusted until Until
	queued   kind = "queued"   // it waits: the server has answered it, and it has a place
	broke    kind = "broke"    // the call ended by a panic or the end of its goroutine, which a callback of its own began
	antic    kind = "antic"    // a callback misbehaves as How says; one of a call of Op, which it keeps for Limit
	unlock   kind = "unlock"   // Unlock is about to be called; Trusted: until now, and if not because of Why
	unlocked kind = "unlocked" // Unlock returned, with Why if it is an error
	wrote    kind = "wrote"    // the resource accepted a write, or refused it as Stale; Trusted: even so
	again    kind = "again"    // the subscription was made again
	passed   kind = "passed"   // a waiter had been passed over
	still    kind = "still"    // nothing in this process ran from At to Until
	closing  kind = "closing"  // a Locker is about to be closed, by Close or Shutdown as How says
	drains   kind = "drains"   // a Locker refuses whoever holds nothing, for certain
	closed   kind = "closed"   // Close or Shutdown has returned
	ended    kind = "ended"    // the worker has ended in good order: nobody waits, nothing is held
)

// number is what the context of a call has its number by.
type number struct{}

// event is a line of a worker's journal.
type event struct {
	Kind    kind   `json:"k"`
	At      int64  `json:"t"`           // ns of the wall clock that all processes of a machine share
	Op      int    `json:"o,omitempty"` // number of the call in its process
	Lock    string `json:"l,omitempty"`
	How     string `json:"h,omitempty"`
	Owner   string `json:"w,omitempty"`
	Token   int64  `json:"n,omitempty"`
	Until   int64  `json:"u,omitempty"`
	Limit   int64  `json:"m,omitempty"` // of a call: it is to return within so many ns; 0: it waits
	Locker  int    `json:"c,omitempty"` // its number in its process
	Fixed   bool   `json:"f,omitempty"` // the call's lease is not renewed
	Why     string `json:"y,omitempty"`
	Trusted bool   `json:"s,omitempty"`
	Stale   bool   `json:"x,omitempty"`
}

// journal is a worker's file. A line is one write, so that a process that is killed loses no more
// than the last one.
type journal struct {
	mu   sync.Mutex // guards file
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// note writes an event of now, or of At.
func (j *journal) note(e event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, err := json.Marshal(e)
	if err == nil {
		j.mu.Lock()
		_, err = j.file.Write(append(line, '\n'))
		j.mu.Unlock()
	}
	if err != nil {
		panic(err) // a history with holes proves nothing
	}
}

// Reasons for which a call ends, in a journal.
const (
	whyHeld      = "held"
	whyFull      = "full"
	whyTimeout   = "timeout"
	whyCancelled = "cancelled"
	whyLost      = "lost"
	whyNotHeld   = "not held"
	whyClosed    = "closed"
)

var reasons = []string{whyHeld, whyFull, whyTimeout, whyCancelled, whyLost, whyNotHeld, whyClosed}

// why is the reason in an error: one of the above, or its text.
func why(err error) string {
	for _, reason := range []struct {
		state error
		why   string
	}{
		{fairlock.ErrLost, whyLost},
		{fairlock.ErrHeld, whyHeld},
		{fairlock.ErrQueueFull, whyFull},
		{fairlock.ErrNotHeld, whyNotHeld},
		{fairlock.ErrClosed, whyClosed},
		{context.Canceled, whyCancelled},
		{context.DeadlineExceeded, whyTimeout},
	} {
		if errors.Is(err, reason.state) {
			return reason.why
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
