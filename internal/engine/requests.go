package engine

import (
	"sync"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// Requests is the [rules.Requests] of a ticket, shared by all goroutines that send or wait for its
// requests. Its methods may be called with any mutex held.
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

// Overtaken notes that a message told of the grant before any request was answered.
func (r *Requests) Overtaken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Overtaken()
}

// EnterDone is Done for an enter: the request that Overtaken may have been about.
func (r *Requests) EnterDone(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.EnterAnswered(lua.Unanswered(err))
}

// Underway reports whether a request is under way that has neither been answered nor failed.
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
