package fairlock

import (
	"maps"
	"slices"
	"time"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/pubsub"
)

// subscriptionStays is how long the subscription for one lock outlives its last waiter.
const subscriptionStays = 30 * time.Second

// remakeEvery is the least time between two remakes of a subscription that the server does not see.
// A proxy may never show it to the server.
const remakeEvery = 30 * time.Second

// subscription is the one to a channel on which grants are told. There is one for all locks; where
// channels are sharded, there is one for each lock with a waiter. All of it is guarded by
// Locker.mu.
type subscription struct {
	session uint64    // a new number each time the subscription came up; 0: not yet
	remade  time.Time // last time, because the server did not see the subscription
	cancel  func()
	keys    lua.Keys    // of the lock that it is for, if idle is not nil
	idle    *time.Timer // ends the subscription for one lock; nil: it is for all locks
}

// session is the session of the subscription for a lock; 0: there is none yet, or it is not up.
// l.mu must be held.
func (l *Locker) session(keys lua.Keys) uint64 {
	if len(l.subscriptions) == 0 {
		return 0
	}
	if s := l.subscriptions[l.core.Server.Channel(keys)]; s != nil {
		return s.session
	}
	return 0
}

// listen subscribes for a lock if that has not been done. If the server does not see the
// subscription of the session in which the request was sent (asked), listen makes it again. l.mu
// must be held.
func (l *Locker) listen(keys lua.Keys, asked uint64) {
	channel := l.core.Server.Channel(keys)
	s := l.subscriptions[channel]
	if s == nil {
		s = new(subscription)
		l.subscriptions[channel] = s
		if l.core.Server.Sharded() {
			s.keys = keys
			s.idle = time.AfterFunc(subscriptionStays, func() { l.unsubscribe(keys, s) })
		}
		s.cancel = l.core.Hub.Listen(channel, &pubsub.Listener{Up: func() { l.subscribed(s) }, Message: l.message})
		return
	}
	if now := time.Now(); asked > 0 && asked == s.session && now.Sub(s.remade) > remakeEvery {
		s.remade = now
		l.core.Go(func() { l.core.Hub.Remake(channel) })
	}
}

// emptied notes that no call waits for the lock any more. l.mu must be held.
func (l *Locker) emptied(keys lua.Keys) {
	if s := l.subscriptions[l.core.Server.Channel(keys)]; s != nil && s.idle != nil {
		s.idle.Reset(subscriptionStays)
	}
}

// unsubscribe ends the subscription for a lock for which nobody has waited for a while. Its timer
// may have waited for l.mu while another call ended s and a newer subscription took its place. The
// server may have seen the subscription with a first request that is under way, and says then that
// it is heard.
func (l *Locker) unsubscribe(keys lua.Keys, s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	channel := l.core.Server.Channel(keys)
	if l.subscriptions[channel] != s || l.lines[keys.Record()] != nil || l.closed {
		return
	}
	if _, coming := l.arrivals[keys.Record()]; coming {
		s.idle.Reset(subscriptionStays)
		return
	}
	delete(l.subscriptions, channel)
	s.cancel()
}

// subscribed makes all waiters whose grants are told by the subscription ask at once: until now
// grants may have gone unheard.
func (l *Locker) subscribed(s *subscription) {
	l.mu.Lock()
	again := s.session > 0
	l.sessions++
	s.session = l.sessions
	if s.idle != nil { // one of thousands that may come up together
		l.hurry(s.keys.Record())
	} else {
		for _, record := range slices.Sorted(maps.Keys(l.lines)) { // the same order every time
			l.lines[record].enterAt(time.Now())
		}
		for record := range l.arrivals {
			l.arrivals.miss(record, time.Now())
		}
	}
	l.mu.Unlock()
	if again {
		l.core.Settings.Observe(engine.Event{Kind: engine.Reconnected})
	}
}
