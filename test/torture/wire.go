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

// environment is the variable that makes a process a worker; it holds the worker's orders.
const environment = "FAIRLOCK_TORTURE"

// orders are what a worker is told before it starts. Afterwards it learns nothing more, except that
// the end of its standard input tells it to end.
type orders struct {
	Process  string        // its name, and the note in all its tickets
	Addr     string        // of the server, or of a proxy before it
	Nodes    []string      // of the quorum, or of proxies before them, instead of Addr
	Resource string        // address of the fenced resource
	Journal  string        // of the worker's own, for what it does
	Seed     uint64        // of the worker's random choices
	Timeout  time.Duration // how long its client waits for an answer
	Obeys    bool          // its client obeys the deadlines of contexts
}

// leaseTime is how long locks are held unless a call asks for something else. It is short, so that
// a minute sees many leases end.
const leaseTime = time.Second

// locks are the locks that all workers use. The first ones are used most.
var locks = []string{"a", "b", "c", "d", mixed, plain}

const (
	// plain is a plain lock, which has no line. All other promises hold for it too.
	plain = "plain"
	// mixed is held by fixed leases of all lengths up to mixedLease.
	mixed = "mixed"
	// long begins the names of locks with leases of up to longLease. No call waits for them.
	long = "long-"
	// own and prey begin the names of a process's own locks. The process holds both at once. The
	// saboteur damages the prey, so nothing is promised of it. But even somebody who may write the
	// prey's keys must not harm another lock.
	own, prey = "own-", "prey-"
	// crew begins the names of a process's own plain locks.
	crew = "crew-"
)

const (
	mixedLease = 5 * time.Second
	longLease  = 3 * time.Minute
	longLocks  = 16
)

// leaseOf returns the longest lease of a lock.
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

// record returns the key of a lock's record, which says who holds the lock.
func record(lock string) string {
	if isPlain(lock) {
		return "fairlock:plain:lock:{" + lock + "}"
	}
	return "fairlock:lock:{" + lock + "}"
}

// kind says what happened to a worker.
type kind string

const (
	called  kind = "call"    // a call asks for Lock, in the way How; Locker is its Locker's number
	got     kind = "got"     // the call has a lease with Owner and Token, trusted until Until
	refused kind = "refused" // the call ended without a lease, because of Why
	kept    kind = "kept"    // the lease is still trusted, now until Until
	over    kind = "over"    // the lease's contexts ended because of Why; it could be trusted until Until
	queued  kind = "queued"  // the call waits: the server has answered it, and it has a place
	// The call ended by a panic or the end of its goroutine, because of its own callback.
	broke kind = "broke"
	// A callback misbehaves as How says; if it is call Op's, it keeps that call for Limit.
	antic kind = "antic"
	// Unlock is about to be called; Trusted: the lease was trusted until now, else see Why.
	unlock   kind = "unlock"
	unlocked kind = "unlocked" // Unlock returned, with Why if it is an error
	// The resource accepted a write, or refused it as Stale; Trusted: the lease was still trusted.
	wrote   kind = "wrote"
	again   kind = "again"   // the subscription was made again
	passed  kind = "passed"  // a waiter had been passed over
	still   kind = "still"   // nothing ran here from At to Until, or could be noted
	closing kind = "closing" // a Locker is about to be closed, by Close or Shutdown as How says
	drains  kind = "drains"  // a Locker certainly refuses callers that hold nothing
	closed  kind = "closed"  // Close or Shutdown has returned
	takes   kind = "takes"   // ForceUnlock or Evict, as How says, is about to be called for Lock
	took    kind = "took"    // it has returned, with Why if it is an error
	ended   kind = "ended"   // the worker has ended in good order: no call waits, and nothing is held
)

// number is the context key for the number of a call.
type number struct{}

// event is a line of a worker's journal.
type event struct {
	Kind    kind   `json:"k"`
	At      int64  `json:"t"`           // ns of the wall clock that all processes of a machine share
	Op      int    `json:"o,omitempty"` // the number of the call in its process
	Lock    string `json:"l,omitempty"`
	How     string `json:"h,omitempty"`
	Owner   string `json:"w,omitempty"`
	Token   int64  `json:"n,omitempty"`
	Until   int64  `json:"u,omitempty"`
	Limit   int64  `json:"m,omitempty"` // a call must return within so many ns; 0: it waits
	Locker  int    `json:"c,omitempty"` // the number of a Locker in its process
	Fixed   bool   `json:"f,omitempty"` // the call's lease is not renewed
	Why     string `json:"y,omitempty"`
	Trusted bool   `json:"s,omitempty"`
	Stale   bool   `json:"x,omitempty"`
}

// journal is a worker's file. Each line is one write, so that a killed process loses no more than
// the last line.
type journal struct {
	mu   sync.Mutex // guards file
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// note writes an event. Its time is now, unless At is set. Who waits for the disk, or for somebody
// else's line, stands still.
func (j *journal) note(e event) {
	began := time.Now()
	if e.At == 0 {
		e.At = began.UnixNano()
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
	if end := time.Now(); end.Sub(began) > noPulse && e.Kind != still {
		j.note(event{Kind: still, At: began.UnixNano(), Until: end.UnixNano()})
	}
}

// These are the reasons in a journal for which calls end.
const (
	whyHeld      = "held"
	whyFull      = "full"
	whyTimeout   = "timeout"
	whyCancelled = "cancelled"
	whyLost      = "lost"
	whyNotHeld   = "not held"
	whyClosed    = "closed"
	whyEvicted   = "evicted"
)

// reasons are those that a call may end for without any fault. An eviction is none, except where
// somebody evicts.
var reasons = []string{whyHeld, whyFull, whyTimeout, whyCancelled, whyLost, whyNotHeld, whyClosed}

// why returns the reason in an error: one of those above, or else the error's text.
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
		{fairlock.ErrEvicted, whyEvicted},
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
