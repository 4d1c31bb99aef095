package fairlock

import "runtime"

// mostTogether is how many share a first request: the server does nothing else meanwhile.
const mostTogether = 100

// crowd is those of this process who come to one lock at the same moment: what they ask first goes out as one request, in the
// order in which they came. Nobody waits for company: who finds others under way lets the goroutines run first that can run
// now, and speaks for those who come. It exists as long as a first request is under way; all is guarded by Locker.mu.
type crowd struct {
	underway int      // first requests
	company  *company // which the next one to come joins; nil: it makes one
}

// company has one request, which the first of it sends.
type company struct{ all []*attempt }

// join adds a to the crowd of its lock, in company unless it is alone. It has to send the first request, unless others do that.
func (l *Locker) join(a *attempt) (with *company, sends bool) {
	if a.Try {
		return nil, true // a try is about one ticket
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.crowds[a.keys.Record()]
	defer func() { l.crowds[a.keys.Record()] = c }()
	apart := a.request.Replicas.Asked() || l.core.Settings.Alarm != nil // in simulated time who happens to run would decide
	switch {
	case c.underway == 0 || apart:
	case c.company == nil:
		with = &company{all: []*attempt{a}}
		c.company = with
	default:
		with = c.company
		if with.all = append(with.all, a); len(with.all) == mostTogether {
			c.company = nil
		}
		return with, false
	}
	c.underway++
	return with, true
}

// depart is who a speaks for when its request goes out.
func (l *Locker) depart(a *attempt, with *company) []*attempt {
	if with == nil {
		return a.alone[:]
	}
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.crowds[a.keys.Record()]; c.company == with {
		c.company = nil
		l.crowds[a.keys.Record()] = c
	}
	return with.all
}

// arrive takes a's request out of the crowd: it was answered, or failed.
func (l *Locker) arrive(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.crowds[a.keys.Record()]
	if c.underway--; c.underway == 0 {
		delete(l.crowds, a.keys.Record())
		return
	}
	l.crowds[a.keys.Record()] = c
}
