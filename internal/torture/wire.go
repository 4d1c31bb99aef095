package torture

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/fairlock/locks/fairlock"
)

// environment is set for processes that are workers; it holds the worker's orders.
const environment = "FAIRLOCK_TORTURE"

// orders are what a worker is told before it starts. Afterwards only the end of its standard input tells it anything.
type orders struct {
	Process  string        // its name, and the note of all its tickets
	Addr     string        // of the server, or of a proxy before it
	Resource string        // address of the fenced resource
	Journal  string        // file of its own for what it does
	Seed     uint64        // of what it does
	Timeout  time.Duration // how long its client waits for an answer
	Obeys    bool          // its client obeys the deadlines of contexts
}

// leaseTime is what locks are held for unless a call asks for something else. It is short, so that a minute sees many of
// them end.
const leaseTime = time.Second

// locks are those that all workers use. The first are used most.
var locks = []string{"a", "b", "c", "d", "e", plain}

// plain is a lock of the other kind, which has no line: all that is promised of the others holds, but for the order.
const plain = "plain"

// record is the key that says who has a lock.
func record(lock string) string {
	if lock == plain {
		return "fairlock:plain:lock:{" + lock + "}"
	}
	return "fairlock:lock:{" + lock + "}"
}

// kind says what happened to a worker.
type kind string

const (
	called   kind = "call"     // it asks for Lock, in the way How
	got      kind = "got"      // the call has a lease with Owner and Token, trusted until Until
	refused  kind = "refused"  // the call ended without one, because of Why
	kept     kind = "kept"     // the lease is still trusted, now until Until
	lost     kind = "lost"     // its Done was closed by a loss
	unlock   kind = "unlock"   // Unlock is about to be called; Trusted: until now
	unlocked kind = "unlocked" // Unlock returned, with Why if it is an error
	wrote    kind = "wrote"    // the resource accepted a write, or refused it as Stale; Trusted: even so
	again    kind = "again"    // the subscription was made again
	passed   kind = "passed"   // a waiter had been passed over
	ended    kind = "ended"    // the worker has ended in good order: nobody waits, nothing is held
)

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
	Why     string `json:"y,omitempty"`
	Trusted bool   `json:"s,omitempty"`
	Stale   bool   `json:"x,omitempty"`
}

// journal is a worker's file. A line is one write, so that a process that is killed loses no more than the last one.
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
)

var reasons = []string{whyHeld, whyFull, whyTimeout, whyCancelled, whyLost, whyNotHeld}

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
