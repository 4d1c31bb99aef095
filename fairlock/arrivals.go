package fairlock

import (
	"runtime"

	"github.com/fairlock/locks/internal/batch"
)

// mostTogether is how many calls share a first request. It is bounded because the server does
// nothing else while it executes one.
const mostTogether = 100

// arrivals are the first requests of this process for one lock. Calls that come at the same moment
// share a request, in the order in which they came. The value exists as long as a request is under
// way. All of it is guarded by Locker.mu.
type arrivals = batch.Batcher[*attempt]

// arrive adds a to a batch, unless a has to ask alone. sends reports whether a has to send the
// request; otherwise another call of the batch sends it.
func (l *Locker) arrive(a *attempt) (with *batch.Batch[*attempt], sends bool) {
	if a.Try {
		return nil, true // a try carries one ticket only
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.arrivals[a.Keys.Record()]
	// In simulated time, the goroutine that happens to run first would decide what a batch has.
	apart := a.Request.Replicas.Asked() || l.core.Settings.Simulated()
	with, sends = r.Begin(a, !apart, l.runs[a.Keys.Record()] != nil, mostTogether)
	l.arrivals[a.Keys.Record()] = r
	return with, sends
}

// speaksFor returns the attempts for which a's request asks. From then on the batch takes no more.
// If a run of this process is under way, that is when the run has ended, or a millisecond later.
func (l *Locker) speaksFor(a *attempt, with *batch.Batch[*attempt]) []*attempt {
	if with == nil {
		return a.alone[:]
	}
	l.mu.Lock()
	passing := l.runs[a.Keys.Record()]
	l.mu.Unlock()
	if passing != nil {
		passing.wait()
	}
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.arrivals[a.Keys.Record()]
	all := r.Close(with)
	l.arrivals[a.Keys.Record()] = r
	return all
}

// arrived notes that the request sent by a was answered, or failed.
func (l *Locker) arrived(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.arrivals[a.Keys.Record()]; r.End() {
		delete(l.arrivals, a.Keys.Record())
	} else {
		l.arrivals[a.Keys.Record()] = r
	}
}
