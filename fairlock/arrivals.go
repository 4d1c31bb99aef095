package fairlock

import (
	"runtime"

	"github.com/fairlock/locks/internal/batch"
)

// mostTogether is how many calls share a first request: the server does nothing else meanwhile.
const mostTogether = 100

// arrivals are the first requests of this process for one lock. Calls that come at the same moment
// share one, in the order in which they came. They exist as long as one is under way; all is
// guarded by Locker.mu.
type arrivals = batch.Requests[*attempt]

// arrive has a ask, in a batch unless it is alone. It has to send the request, unless another of
// the batch does.
func (l *Locker) arrive(a *attempt) (with *batch.Batch[*attempt], sends bool) {
	if a.Try {
		return nil, true // a try is about one ticket
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.arrivals[a.Keys.Record()]
	if r == nil {
		r = new(arrivals)
		l.arrivals[a.Keys.Record()] = r
	}
	apart := a.Request.Replicas.Asked() || l.core.Settings.Simulated() // in simulated time who happens to run would decide
	return r.Begin(a, !apart, mostTogether)
}

// speaksFor is whom a asks for when its request goes out.
func (l *Locker) speaksFor(a *attempt, with *batch.Batch[*attempt]) []*attempt {
	if with == nil {
		return a.alone[:]
	}
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrivals[a.Keys.Record()].Close(with)
}

// arrived says that the request that a sent was answered, or failed.
func (l *Locker) arrived(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrivals[a.Keys.Record()].End() {
		delete(l.arrivals, a.Keys.Record())
	}
}
