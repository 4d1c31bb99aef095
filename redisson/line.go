package redisson

import (
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

const (
	tryEvery = 5 * time.Second        // a release of a plain lock may have gone unheard
	soonest  = 100 * time.Millisecond // between two looks at a free lock
)

// line is the calls of this process that wait for one lock. All of it is guarded by Locker.mu.
type line struct {
	keys    lua.Keys
	calls   []*call // in the order in which they came
	count   int     // of those, and of the calls whose OnQueued runs
	alarm   *engine.Alarm
	forget  func()         // ends the subscription of a plain lock
	looking time.Time      // when the last refresh went out; zero: it is answered, or has failed
	failing engine.Failing // the requests of any call in it
	failed  *call          // whose own request failed last; nil: one was answered since
	seen    view           // by the last refresh that was answered
	when    time.Time      // that was; zero: none was
}

// join gives the call its place, and has it hear of releases.
func (l *Locker) join(c *call, a answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over || engine.IsClosed(c.away) {
		return engine.ErrClosed
	}
	at := l.lines[c.Keys.Record()]
	if most := c.Request.MaxWaiters; l.plain && most > 0 && at != nil && at.count >= most {
		return engine.ErrQueueFull
	}
	if at == nil {
		at = l.open(c.Keys)
	}
	at.count++
	if c.position = a.position; l.plain {
		c.position = at.count
	} else {
		told := &pubsub.Listener{Up: c.signal, Message: func(string) { c.signal() }}
		c.forget = l.core.Hub.Listen(channel(c.Keys)+":"+c.owner(), told)
		at.calls = append(at.calls, c) // its place is kept, also while OnQueued runs
	}
	c.joined = true
	l.due(at, a)
	return nil
}

// open begins the line of a lock. l.mu must be held.
func (l *Locker) open(keys lua.Keys) *line {
	at := &line{keys: keys, forget: func() {}}
	at.alarm = engine.NewAlarm(time.Now().Add(l.every()), func() { l.look(at) })
	if l.plain {
		wake := func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			at.wake()
		}
		at.forget = l.core.Hub.Listen(channel(keys), &pubsub.Listener{Up: wake, Message: func(string) { wake() }})
	}
	l.lines[keys.Record()] = at
	return at
}

// every is how often a line is looked at, at least.
func (l *Locker) every() time.Duration {
	if l.plain {
		return tryEvery
	}
	return l.ours / 3
}

// stand puts the call for a plain lock at the end of its line, once OnQueued has returned.
func (l *Locker) stand(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.lines[c.Keys.Record()]; l.plain && at != nil && !c.over {
		at.calls = append(at.calls, c)
		at.wake() // the lock may have been released before the server knew of the subscription
	}
}

// quit takes the call out of its line. If it is plain, the next asks in its stead. l.mu must be
// held.
func (l *Locker) quit(c *call) {
	if !c.joined {
		return
	}
	if c.forget != nil {
		c.forget()
	}
	at := l.lines[c.Keys.Record()]
	if i := slices.Index(at.calls, c); i >= 0 {
		at.calls = slices.Delete(at.calls, i, i+1)
	}
	if at.count--; at.count == 0 {
		at.alarm.Stop()
		at.forget()
		delete(l.lines, c.Keys.Record())
		return
	}
	if l.plain {
		at.wake()
	}
}

// heard takes in an answer to a call in line.
func (l *Locker) heard(c *call, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.lines[c.Keys.Record()]; at != nil {
		l.due(at, a)
	}
}

// failed notes why a request of a call failed.
func (l *Locker) failed(c *call, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.failure = why
	if at := l.lines[c.Keys.Record()]; at != nil && c.joined {
		at.failing.Note(l.core, c.Name, why)
		at.failed = c
	}
}

// answered notes that a request of a call in the line was answered. Locker.mu must be held.
func (at *line) answered() {
	at.failing.Over()
	at.failed = nil
}

// lastFailure is why the last request for the lock of a call failed, if it did: its own, or one for
// the whole line. l.mu must be held.
func (l *Locker) lastFailure(c *call) error {
	if at := l.lines[c.Keys.Record()]; at != nil && c.joined {
		return at.failing.Last
	}
	return c.failure
}

// due sets the alarm for the end of the lock that an answer tells: nobody tells that a holder died.
// l.mu must be held.
func (l *Locker) due(at *line, a answer) {
	at.answered()
	if a.left > 0 {
		at.alarm.By(time.Now().Add(a.left + rules.AfterEnd))
	}
}

// wake lets the first call ask that is not asking already: the lock may be free. If all are asking,
// the first asks again, for its request may have come before the release. Locker.mu must be held.
func (at *line) wake() {
	for _, c := range at.calls {
		if !c.asks {
			c.signal()
			return
		}
	}
	if len(at.calls) > 0 {
		at.calls[0].signal()
	}
}

// look runs when the alarm goes off: the lock may have ended, or a message may have gone unheard.
func (l *Locker) look(at *line) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(l.closing) || l.lines[at.keys.Record()] != at {
		return
	}
	at.alarm.WentOff()
	now := time.Now()
	next := now.Add(l.every())
	switch {
	case l.plain:
		at.wake()
	case at.looking.Add(l.every()).After(now): // a refresh is under way; this is what it may take
		next = at.looking.Add(l.every())
	case len(at.calls) > 0:
		at.looking = now
		calls := slices.Clone(at.calls)
		l.core.Go(func() { l.refresh(at, calls, now) })
	}
	at.alarm.By(next)
}
