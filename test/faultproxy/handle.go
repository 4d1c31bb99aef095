package faultproxy

import (
	"sync"
	"testing"
	"time"
)

// Handle tells what has become of a [Rule] and takes it back. Its methods may
// be called from any goroutine; the waiting ones end the test with Fatal and so
// belong to the test's own.
type Handle struct {
	rule Rule

	mu       sync.Mutex
	removed  bool
	hits     int
	executed int
	released chan struct{} // closed by Release for the requests held so far
	changed  chan struct{} // closed and replaced at every change above
}

func newHandle(rule Rule) *Handle {
	return &Handle{rule: rule, released: make(chan struct{}), changed: make(chan struct{})}
}

// Remove ends the rule for requests to come. A request that is held stays so
// until [Handle.Release].
func (h *Handle) Remove() {
	h.update(func() { h.removed = true })
}

func (h *Handle) isRemoved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.removed
}

// Release lets the requests that [HoldRequest] holds now go on to the server.
// A request that comes later is held again until the next Release.
func (h *Handle) Release() {
	h.update(func() {
		close(h.released)
		h.released = make(chan struct{})
	})
}

// Hits returns how many requests the rule has acted on.
func (h *Handle) Hits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hits
}

// Executed returns how many of these requests the server has answered. So a test knows that a
// released request has had its effect, even if no client is left to be told.
func (h *Handle) Executed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.executed
}

// WaitHit waits until the rule has acted on n requests. A hit of a
// [HoldRequest] rule is held from that moment on; any other may still be on
// its way to the server.
func (h *Handle) WaitHit(tb testing.TB, n int, timeout time.Duration) {
	tb.Helper()
	h.wait(tb, "hits", n, timeout, func() int { return h.hits })
}

// WaitExecuted waits until the server has answered n of the requests that the
// rule acted on.
func (h *Handle) WaitExecuted(tb testing.TB, n int, timeout time.Duration) {
	tb.Helper()
	h.wait(tb, "executions", n, timeout, func() int { return h.executed })
}

// wait waits until count, called with mu held, returns at least n.
func (h *Handle) wait(tb testing.TB, what string, n int, timeout time.Duration, count func() int) {
	tb.Helper()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		h.mu.Lock()
		got, changed := count(), h.changed
		h.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			tb.Fatalf("faultproxy: %d %s of the rule after %v, want %d", got, what, timeout, n)
		}
	}
}

// claim takes the request for the rule, if the rule still wants one. What it
// returns is closed by the next Release.
func (h *Handle) claim(args []string) (released <-chan struct{}, ok bool) {
	if !h.rule.Match(args) {
		return nil, false
	}
	h.update(func() {
		if ok = !h.removed && (h.rule.Times == 0 || h.hits < h.rule.Times); ok {
			h.hits++
			released = h.released
		}
	})
	return released, ok
}

func (h *Handle) markExecuted() {
	h.update(func() { h.executed++ })
}

// update changes the state and wakes all that wait for a change.
func (h *Handle) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	close(h.changed)
	h.changed = make(chan struct{})
}
