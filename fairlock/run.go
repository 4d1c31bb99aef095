package fairlock

import (
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
)

// PassOn gives the next turn on a hold to the first call of its run that still waits. The run are
// the tickets behind the hold's that were next in line when the server gave the lock: so that call
// is the next, whoever hands over, and needs no request. The server still has it in line, where it
// stays until the hold is given back.
func (s strategy) PassOn(h *engine.Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for skipped, counter := range h.Rest() {
		a := s.attempts[counter]
		switch {
		case a == nil || a.Phase != rules.Waiting || a.Keys != h.Keys:
			continue // its call has ended, and its leave is on its way
		case !a.Request.Shares():
			return false
		}
		turn := s.core.Pass(h, engine.Next{
			For: engine.For{Name: a.Name}, Ticket: a.ticket, Place: a.Place, Requests: a.requests,
		}, skipped)
		if turn == nil {
			return false
		}
		if a.Last.At == 0 { // the server has named the ticket: its one request was executed
			a.requests.Overtaken()
		}
		a.Follows()
		s.settle(a, turn, nil)
		return true
	}
	return false
}

// run is a hold with a run, until the hold has been given back. Calls that come meanwhile wait for
// that, but no longer than together, and share a request. Otherwise they would come back one by
// one, with the requests of other processes between them, and there would soon be no runs.
type run struct {
	hold *engine.Hold
	over chan struct{} // closed when the hold has been given back
}

// begins notes that a hold has a run. If the grant came with the answer to the leave of another
// run, that one is over. l.mu must be held.
func (l *Locker) begins(h *engine.Hold) {
	if before := l.runs[h.Keys.Record()]; before != nil {
		close(before.over)
	}
	l.runs[h.Keys.Record()] = &run{h, make(chan struct{})}
}

// ends notes that a hold was given back. l.mu must be held.
func (l *Locker) ends(h *engine.Hold) {
	if r := l.runs[h.Keys.Record()]; r != nil && r.hold == h {
		close(r.over)
		delete(l.runs, h.Keys.Record())
	}
}

// together is for how long calls wait for the end of a run, to ask with one request.
const together = time.Millisecond

func (r *run) wait() {
	timer := time.NewTimer(together)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-timer.C:
	}
}
