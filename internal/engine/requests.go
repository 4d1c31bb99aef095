package engine

import (
	"sync"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Requests is the [rules.Requests] of a ticket for all who send and wait for them. Its methods may
// be called with any mutex held.
type Requests struct {
	mu sync.Mutex // guards r; nothing else is done under it
	r  rules.Requests
}

// Sent notes a request that goes out; Done must follow.
func (r *Requests) Sent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Sent()
}

// Done notes how a request ended.
func (r *Requests) Done(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Answered(lua.Unanswered(err))
}

// Overtaken notes that a message told of the lock before anything was answered.
func (r *Requests) Overtaken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Overtaken()
}

// EnterDone is Done for a request that Overtaken may have been about.
func (r *Requests) EnterDone(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.EnterAnswered(lua.Unanswered(err))
}

// Underway reports whether a request went out to which nothing has come back yet.
func (r *Requests) Underway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.InFlight > 0
}

// Open reports whether a request may still be executed.
func (r *Requests) Open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Open()
}
