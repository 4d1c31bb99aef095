package fairlock

import (
	"runtime"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/batch"
	"github.com/fairlock/locks/lua"
)

// mostTogether is how many calls share a first request. It is bounded because the server does
// nothing else while it executes one.
const mostTogether = 100

// A crowd of calls with MaxWaiters asks in requests that go out one after the other, until one is
// answered that the line is full. Up to mostInCrowd calls wait for that; and only those with a
// bound of mostInLine at most, so that it takes few requests.
const (
	mostInCrowd = 10_000
	mostInLine  = 10 * mostTogether
)

// batches are requests of one kind, by record key. What is ready at the same moment goes out as one.
// A value exists as long as a request is under way. All of it is guarded by Locker.mu.
type batches map[string]requests

// requests are those for one lock.
type requests struct {
	batch.Batcher[*attempt]
	missed time.Time // when their calls may last have missed something; 0: never
}

// miss notes that the calls whose requests are under way may have missed something. Until such a
// request is answered, no line has its calls.
func (b batches) miss(record string, now time.Time) {
	if r, ok := b[record]; ok {
		r.missed = now
		b[record] = r
	}
}

// missedSince reports whether the calls may have missed something since the time at which their
// request was sent.
func (b batches) missedSince(record string, sent time.Time) bool {
	r, ok := b[record]
	return ok && !r.missed.Before(sent)
}

// begin is [batch.Batcher.Begin].
func (b batches) begin(a *attempt, shares, waits bool, most int) (with *batch.Batch[*attempt], sends bool) {
	r := b[a.Keys.Record()]
	with, sends = r.Begin(a, shares, waits, most)
	b[a.Keys.Record()] = r
	return with, sends
}

// close is [batch.Batcher.Close], for the batch that a sends.
func (b batches) close(a *attempt, with *batch.Batch[*attempt]) []*attempt {
	r := b[a.Keys.Record()]
	all := r.Close(with)
	b[a.Keys.Record()] = r
	return all
}

// end notes that the request sent by a was answered, or failed.
func (b batches) end(a *attempt) {
	if r := b[a.Keys.Record()]; r.End() {
		delete(b, a.Keys.Record())
	} else {
		b[a.Keys.Record()] = r
	}
}

// arrive adds a to a batch, unless a has to ask alone. sends reports whether a has to send the
// request; otherwise another call of the batch sends it.
func (l *Locker) arrive(a *attempt) (with *batch.Batch[*attempt], sends bool) {
	if a.Try {
		return nil, true // a try carries one ticket only
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	apart := a.Request.Replicas.Asked() || l.apart()
	most := mostTogether
	if a.turnedAwayAlike() {
		most = mostInCrowd
	}
	return l.arrivals.begin(a, !apart, l.runs[a.Keys.Record()] != nil, most)
}

// turnedAwayAlike reports whether the server turns a away whenever it turns away another call with
// the same bound, or a larger one. That of an owner may have the lock all the same.
func (a *attempt) turnedAwayAlike() bool {
	bound := a.Request.MaxWaiters
	return 0 < bound && bound <= mostInLine && a.ticket.Owner == ""
}

// unasked ends the calls whose fate an exchange tells, though they were not in it: it was sent after
// they began. Either it failed, or the line was full for a call whose bound is no smaller. unasked
// returns the other calls.
func (l *Locker) unasked(x exchange, all []*attempt) []*attempt {
	if len(all) == 0 || len(x.of) == 0 {
		return all
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.err != nil {
		now := time.Now()
		if ln := l.failed(all, x.err, now); ln != nil {
			ln.enterAt(now.Add(ln.Backoff)) // the failure was noted for those who asked
		}
		return nil
	}
	bound := 0
	for i, t := range x.answer.Tickets {
		if t.Status == lua.Full {
			bound = max(bound, x.of[i].Request.MaxWaiters)
		}
	}
	return slices.DeleteFunc(all, func(a *attempt) bool {
		alike := a.turnedAwayAlike() && a.Request.MaxWaiters <= bound
		if alike {
			l.carryOut(a, a.TurnedAway(), ErrQueueFull)
		}
		return alike
	})
}

// apart reports whether no requests go out together. In simulated time, the goroutine that happens
// to run first would decide what a batch has.
func (l *Locker) apart() bool { return l.core.Settings.Simulated() }

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
	return l.arrivals.close(a, with)
}

// arrived notes that the request sent by a was answered, or failed.
func (l *Locker) arrived(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals.end(a)
}
