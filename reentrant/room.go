package reentrant

import (
	"slices"
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

const (
	tryEvery  = 5 * time.Second      // a release may have gone unheard
	tryAgain  = 5 * time.Millisecond // no two tries of one waiter are closer, after the answer to the first
	starving  = time.Second          // who has waited for so long comes before all others of its process
	roomStays = 5 * time.Second      // with its subscription, after its last waiter
)

// room is this process's waiters of one plain lock. One of them tries at a time; all is guarded by Locker.mu.
type room struct {
	keys    lua.Keys
	waiting []*call // in the order of their calls
	trying  *call   // whose turn it is
	again   bool    // something happened since it was given the turn
	heard   time.Time
	timer   *time.Timer
	due     time.Time // of the timer
	emptied time.Time
	forget  func() // ends the subscription

	// What the last answer said.
	owner string
	ends  time.Time // when the record does unless it is renewed
}

func (r *room) size() int {
	if r == nil {
		return 0
	}
	return len(r.waiting)
}

// starves reports whether somebody has waited for too long to let others try.
func (r *room) starves() bool {
	first := r.first()
	return first != nil && time.Since(first.began) > starving
}

// first is who has waited longest of those who can have the turn; nil: nobody can.
func (r *room) first() *call {
	if r == nil {
		return nil
	}
	for _, c := range r.waiting {
		if !c.calling {
			return c
		}
	}
	return nil
}

// join has c wait. asked is when it last asked the server, held what that answered.
func (l *Locker) join(c *call, asked time.Time, held *HeldError) (*room, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.draining && !c.within {
		return nil, ErrClosed
	}
	r := l.rooms[c.keys.Record()]
	if most := c.request.MaxWaiters; most > 0 && r.size() >= most {
		return nil, ErrQueueFull
	}
	if r == nil {
		r = l.open(c.keys)
	}
	c.turn, c.away = make(chan struct{}, 1), make(chan struct{})
	at := len(r.waiting)
	for at > 0 && r.waiting[at-1].began.After(c.began) {
		at--
	}
	r.waiting = slices.Insert(r.waiting, at, c)
	c.position, c.calling = at+1, c.request.OnQueued != nil
	if held == nil { // the request went unanswered
		c.wait(r)
	} else {
		r.learn(held)
	}
	if !r.heard.Before(asked) || held == nil {
		l.rouse(r)
	}
	return r, nil
}

// open makes a room and subscribes to the releases of its lock. l.mu must be held.
func (l *Locker) open(keys lua.Keys) *room {
	forget := func() {}
	if sharded := l.core.Server.Sharded(); sharded || !l.own {
		l.own = true
		forgetOwn := l.core.Hub.Listen(l.core.Server.Channel(keys), l.listener())
		if sharded { // it is for this lock alone
			forget = forgetOwn
		}
	}
	r := &room{keys: keys, due: time.Now().Add(tryEvery)}
	r.timer = time.AfterFunc(tryEvery, func() { l.ring(r) })
	freed := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		r.heard = time.Now()
		l.rouse(r)
	}
	forgetFreed := l.core.Hub.Listen(l.core.Server.Freed(keys), &pubsub.Listener{Up: freed, Message: func(string) { freed() }})
	r.forget = func() {
		forget()
		forgetFreed()
	}
	l.rooms[keys.Record()] = r
	return r
}

// listener hears what the server tells this client.
func (l *Locker) listener() *pubsub.Listener {
	again := false
	return &pubsub.Listener{
		Up: func() {
			if again {
				l.core.Settings.Observe(Event{Kind: Reconnected})
			}
			again = true
		},
		Message: l.heard,
	}
}

// learn takes in who holds the lock and for how long.
func (r *room) learn(held *HeldError) {
	r.owner, r.ends = held.Owner, time.Now().Add(held.Remaining)
	if held.Remaining > 0 {
		r.at(r.ends.Add(2 * time.Millisecond)) // nobody tells us that a holder died
	}
}

// at has somebody try then, if it would not be sooner anyway.
func (r *room) at(when time.Time) {
	if when.Before(r.due) {
		r.due = when
		r.timer.Reset(time.Until(when))
	}
}

// ring is the timer's: the record may have ended, or a release gone unheard.
func (l *Locker) ring(r *room) {
	l.core.Settings.Alarmed()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.rooms[r.keys.Record()] != r {
		return
	}
	if r.size() == 0 && time.Since(r.emptied) >= roomStays {
		r.forget()
		delete(l.rooms, r.keys.Record())
		return
	}
	r.due = time.Now().Add(tryEvery)
	r.timer.Reset(tryEvery)
	l.rouse(r)
}

// rouse gives the turn to the first who may have it: one who has the same owner as the holder, or who has waited
// longest. If somebody has it already, that one's answer may be older than what happened: then again. l.mu must be held.
func (l *Locker) rouse(r *room) {
	if r.trying != nil {
		r.again = true
		return
	}
	now := time.Now()
	starved, first := r.starves(), r.first()
	var next *call
	for _, c := range r.waiting {
		if c.calling {
			c.missed = true
			continue
		}
		if now.Before(c.next) {
			r.at(c.next)
			continue
		}
		if c.kin(r) {
			next = c
			break
		}
		if next == nil && (c == first || !starved) {
			next = c
		}
	}
	if next != nil {
		r.trying = next
		next.turn <- struct{}{}
	}
}

// tried takes in what came of c's turn.
func (l *Locker) tried(r *room, c *call, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.trying == c {
		r.trying = nil
	}
	switch {
	case o.hold != nil:
		r.remove(c)
		r.again = false // its release will be heard
		return
	case o.held != nil:
		c.next = time.Now().Add(tryAgain)
		before := r.owner
		r.learn(o.held)
		r.again = r.again || r.owner != before && slices.ContainsFunc(r.waiting, func(c *call) bool { return c.kin(r) })
	default:
		c.wait(r)
	}
	if r.again {
		r.again = false
		l.rouse(r)
	}
}

// returned has c take part: its OnQueued has returned, and something may have happened meanwhile.
func (l *Locker) returned(r *room, c *call) {
	if c.request.OnQueued == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.calling = false; c.missed {
		l.rouse(r)
	}
}

// kin reports whether c has the holder's name.
func (c *call) kin(r *room) bool { return c.request.Owner != "" && c.request.Owner == r.owner }

// wait puts c's next try off: the last one failed. Locker.mu must be held.
func (c *call) wait(r *room) {
	c.next = time.Now().Add(c.failures.Next())
	r.at(c.next)
}

// quit takes c out, if it is there; if it had the turn, that passes on.
func (l *Locker) quit(r *room, c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.remove(c)
	if r.trying == c {
		r.trying, r.again = nil, false
		l.rouse(r)
	}
}

// known is what was last heard of the holder. Locker.mu must be held.
func (r *room) known() *HeldError {
	return &HeldError{Owner: r.owner, Remaining: max(0, time.Until(r.ends)), Waiting: r.size()}
}

func (r *room) remove(c *call) {
	i := slices.Index(r.waiting, c)
	if i < 0 {
		return
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	if len(r.waiting) == 0 {
		r.emptied = time.Now()
		r.at(r.emptied.Add(roomStays))
	}
}
