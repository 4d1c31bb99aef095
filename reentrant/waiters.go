package reentrant

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

const (
	tryEvery     = 5 * time.Second // a release may have gone unheard
	waitersStays = 5 * time.Second // time from the last waiter to the end of waiters

	overdue = 500 * time.Millisecond // a try may have been lost: the next call tries, too
)

// waiters are the calls of this process that wait for one plain lock. If this process has the lock,
// the first of them may be passed the next turn. Otherwise the first tries when the lock may be
// free. If its try is overdue, the next tries, too. A call that names the holder as its owner also
// tries when it may join the hold. All of it is guarded by Locker.mu.
type waiters struct {
	keys   lua.Keys
	inLine []*call // in the order in which they came
	count  int     // of the calls in line, and of those whose OnQueued runs
	woken  time.Time
	alarm  *engine.Alarm
	empty  time.Time // since when no call waits
	forget func()    // ends the subscription

	// What the last answer said.
	heard   bool // there was one
	owner   string
	ends    time.Time      // when the record ends unless it is renewed
	failing engine.Failing // requests since then
}

// size is how many wait; w may be nil.
func (w *waiters) size() int {
	if w == nil {
		return 0
	}
	return w.count
}

// lastFailure is why the last request of those in line failed, if it did; w may be nil.
func (w *waiters) lastFailure() error {
	if w == nil {
		return nil
	}
	return w.failing.Last
}

// busy reports whether a call in line tries whenever the lock may be free.
func (w *waiters) busy() bool { return w != nil && len(w.inLine) > 0 && w.heard }

// join counts c among the waiters; c stands in line later. held is the server's answer to c, or
// nil.
func (l *Locker) join(c *call, held *engine.HeldError) (*waiters, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(c.away) {
		return nil, engine.ErrClosed
	}
	w := l.waiters[c.Keys.Record()]
	if most := c.Request.MaxWaiters; most > 0 && w.size() >= most {
		return nil, engine.ErrQueueFull
	}
	if w == nil {
		w = l.open(c.Keys)
	}
	if held != nil {
		w.learn(held)
	} else if c.failure != nil {
		w.failing.Note(l.core, c.Name, c.failure)
	}
	w.count++
	c.position, c.may, c.passed = w.count, make(chan struct{}, 1), make(chan *engine.Turn, 1)
	return w, nil
}

// stand puts c at the end of the line. If c is the first and the line was woken since c asked, or
// if the holder has c's own name by now, c may try at once: nobody else would tell it.
func (l *Locker) stand(w *waiters, c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.inLine = append(w.inLine, c)
	if c.joins(w) || w.inLine[0] == c && !w.woken.Before(c.asked) {
		signal(c.may)
	}
}

// quit takes c out; turn is what c has. If c was first and does not have the lock, the next call
// tries in its stead. If c has the lock, the next call tries when the lock is given back, or when
// c's lease may have ended. Nobody tells of the end of a lease. A turn that was passed to c too
// late is given back.
func (l *Locker) quit(w *waiters, c *call, turn *engine.Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case late := <-c.passed:
		l.core.Abandon(late)
	default:
	}
	w.count--
	if w.count == 0 {
		w.empty, w.heard = time.Now(), false // nobody listens to what becomes of the lock
		w.failing.Over()
		w.alarm.By(w.empty.Add(waitersStays))
	}
	i := slices.Index(w.inLine, c)
	if i < 0 {
		return
	}
	w.inLine = slices.Delete(w.inLine, i, i+1)
	switch {
	case turn != nil:
		w.alarm.By(time.Now().Add(c.Request.Lease + rules.AfterEnd))
	case i == 0:
		w.wake()
	}
}

// open subscribes to the releases of a lock. l.mu must be held.
func (l *Locker) open(keys lua.Keys) *waiters {
	forget := func() {}
	if sharded := l.core.Server.Sharded(); sharded || !l.own {
		l.own = true
		forgetOwn := l.core.Hub.Listen(l.core.Server.Channel(keys), l.listener())
		if sharded { // the channel is for this lock alone
			forget = forgetOwn
		}
	}
	w := &waiters{keys: keys}
	w.alarm = engine.NewAlarm(time.Now().Add(tryEvery), func() { l.alarmed(w) })
	freed := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.wake()
	}
	forgetFreed := l.core.Hub.Listen(l.core.Server.Freed(keys), &pubsub.Listener{Up: freed, Message: func(string) { freed() }})
	w.forget = func() {
		forget()
		forgetFreed()
	}
	l.waiters[keys.Record()] = w
	return w
}

// listener handles what the server tells this client.
func (l *Locker) listener() *pubsub.Listener {
	again := false
	return &pubsub.Listener{
		Up: func() {
			if again {
				l.core.Settings.Observe(engine.Event{Kind: engine.Reconnected})
			}
			again = true
		},
		Message: l.heard,
	}
}

// wake makes the first in line try, because the lock may be free, and those behind calls whose try
// is overdue. Locker.mu must be held.
func (w *waiters) wake() {
	w.woken = time.Now()
	for _, c := range w.inLine {
		signal(c.may)
		if !c.late(w.woken) {
			return
		}
	}
}

// tries sends the next try of a call in line.
func (l *Locker) tries(ctx context.Context, w *waiters, c *call) outcome {
	l.trying(c, time.Now())
	defer l.trying(c, time.Time{})
	late := time.AfterFunc(overdue, func() { l.late(w, c) })
	defer late.Stop()
	return l.try(ctx, c)
}

// trying notes that a try of c goes out, or with the zero time that it has ended.
func (l *Locker) trying(c *call, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.tried = at
}

// late runs when a try of c may be overdue.
func (l *Locker) late(w *waiters, c *call) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.late(time.Now()) {
		w.wake()
	}
}

// late reports whether c's try is overdue. Locker.mu must be held.
func (c *call) late(now time.Time) bool { return !c.tried.IsZero() && now.Sub(c.tried) >= overdue }

// learn notes who holds the lock, in this process or elsewhere, and for how long. Calls that name a
// new holder as their owner try to join the hold. Where the holder is the one that was known, they
// have tried: an owner that nobody named cannot be joined. Locker.mu must be held.
func (w *waiters) learn(held *engine.HeldError) {
	news := !w.heard || w.owner != held.Owner
	w.heard, w.owner, w.ends = true, held.Owner, time.Now().Add(held.Remaining)
	if held.Failure == nil {
		w.failing.Over()
	}
	w.alarm.By(w.ends.Add(rules.AfterEnd)) // nobody tells us that a holder died
	if !news {
		return
	}
	for _, c := range w.inLine {
		if c.joins(w) {
			signal(c.may)
		}
	}
}

// refused is learn for a call that has just tried.
func (l *Locker) refused(w *waiters, held *engine.HeldError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.learn(held)
}

// failed notes why the request of a call in line failed.
func (l *Locker) failed(w *waiters, c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.failing.Note(l.core, c.Name, c.failure)
}

// known is what was last heard of the holder. Locker.mu must be held.
func (w *waiters) known() *engine.HeldError {
	return &engine.HeldError{Owner: w.owner, Remaining: max(0, time.Until(w.ends)), Waiting: w.size(), Failure: w.failing.Last}
}

// lastWord is what was last heard of the holder, or errTimeUp if nothing was.
func (l *Locker) lastWord(w *waiters, c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.failure = w.failing.Last; !w.heard {
		return errTimeUp
	}
	return w.known()
}

// alarmed runs when the alarm goes off: the record may have ended, or a release may have gone
// unheard.
func (l *Locker) alarmed(w *waiters) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if engine.IsClosed(l.closing) || l.waiters[w.keys.Record()] != w {
		return
	}
	if w.count == 0 && time.Since(w.empty) >= waitersStays {
		w.forget()
		delete(l.waiters, w.keys.Record())
		return
	}
	w.alarm.WentOff()
	w.alarm.By(time.Now().Add(tryEvery))
	w.wake()
}

// signal puts one signal in the channel, unless it has one.
func signal(may chan<- struct{}) {
	select {
	case may <- struct{}{}:
	default:
	}
}
