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
	if r == nil {
		r = new(arrivals)
		l.arrivals[a.Keys.Record()] = r
	}
	// In simulated time, the goroutine that happens to run first would decide what a batch has.
	apart := a.Request.Replicas.Asked() || l.core.Settings.Simulated()
	return r.Begin(a, !apart, mostTogether)
}

// speaksFor returns the attempts for which a's request asks. From then on the batch takes no more.
func (l *Locker) speaksFor(a *attempt, with *batch.Batch[*attempt]) []*attempt {
	if with == nil {
		return a.alone[:]
	}
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrivals[a.Keys.Record()].Close(with)
}

// arrived notes that the request sent by a was answered, or failed.
func (l *Locker) arrived(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrivals[a.Keys.Record()].End() {
		delete(l.arrivals, a.Keys.Record())
	}
}
