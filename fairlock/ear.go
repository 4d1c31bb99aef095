package fairlock

import (
	"time"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
	"github.com/fairlock/locks/reentrant"
)

// earStays is how long the subscription for one lock outlives its last waiter.
const earStays = 30 * time.Second

// ear is the subscription to a channel on which grants are told: one for all locks, or, where channels are sharded, one for each
// that is waited for. All is guarded by Locker.mu.
type ear struct {
	session uint64    // another one each time that the subscription came up; 0: it has not yet
	remade  time.Time // when it was last made again because the server did not see it
	forget  func()
	idle    *time.Timer // ends that of one lock
}

// up is the session; nil has none.
func (e *ear) up() uint64 {
	if e == nil {
		return 0
	}
	return e.session
}

// earOf is the ear for a lock; nil: there is none yet. l.mu must be held.
func (l *Locker) earOf(keys lua.Keys) *ear {
	if l.core.Server.Sharded() {
		return l.ears[keys.Record()]
	}
	return l.ear
}

// listen opens the subscription if there is none, and makes it again if the server does not see the one that we had
// when we asked. l.mu must be held.
func (l *Locker) listen(keys lua.Keys, session uint64) {
	channel := l.core.Server.Channel(keys)
	e := l.earOf(keys)
	if e == nil {
		e = new(ear)
		if l.core.Server.Sharded() {
			l.ears[keys.Record()] = e
			e.idle = time.AfterFunc(earStays, func() { l.deafen(keys, e) })
		} else {
			l.ear = e
		}
		e.forget = l.core.Hub.Listen(channel, &pubsub.Listener{Up: func() { l.resubscribed(e, keys) }, Message: l.message})
		return
	}
	if now := time.Now(); session > 0 && session == e.session && now.Sub(e.remade) > remakeEvery {
		e.remade = now
		l.core.Keeper.Go(func() { l.core.Hub.Remake(channel) })
	}
}

// rests is told that nobody waits for the lock any more. l.mu must be held.
func (l *Locker) rests(keys lua.Keys) {
	if e := l.ears[keys.Record()]; e != nil {
		e.idle.Reset(earStays)
	}
}

// deafen ends the subscription for a lock for which nobody has waited for a while.
func (l *Locker) deafen(keys lua.Keys, e *ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[keys.Record()] == nil && !l.closed {
		delete(l.ears, keys.Record())
		e.forget()
	}
}

// resubscribed has everybody who is told there enter: until now grants may have gone unheard.
func (l *Locker) resubscribed(e *ear, keys lua.Keys) {
	l.mu.Lock()
	again := e.session > 0
	l.sessions++
	e.session = l.sessions
	if l.core.Server.Sharded() {
		l.hurry(keys)
	} else {
		for _, ln := range l.lines {
			ln.enterAt(time.Now())
		}
	}
	l.mu.Unlock()
	if again {
		l.core.Settings.Observe(reentrant.Event{Kind: reentrant.Reconnected})
	}
}
