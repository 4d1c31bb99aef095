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

// remakeEvery is how often a subscription is made again at most because the server does not see it:
// a proxy may never show it.
const remakeEvery = 30 * time.Second

// subscription is that to a channel on which grants are told: one for all locks, or, where channels
// are sharded, one for each lock that is waited for. All is guarded by Locker.mu.
type subscription struct {
	session uint64    // another one each time that it came up; 0: it has not yet
	remade  time.Time // when it was last made again because the server did not see it
	cancel  func()
	idle    *time.Timer // ends that of one lock; nil: it is for all
}

// session is that of the subscription for a lock; 0: there is none yet, or it is not up. l.mu must
// be held.
func (l *Locker) session(keys lua.Keys) uint64 {
	if len(l.subscriptions) == 0 {
		return 0
	}
	if s := l.subscriptions[l.core.Server.Channel(keys)]; s != nil {
		return s.session
	}
	return 0
}

// listen subscribes for a lock if that has not been done, and makes the subscription again if the
// server does not see the one that we had when we asked. l.mu must be held.
func (l *Locker) listen(keys lua.Keys, asked uint64) {
	channel := l.core.Server.Channel(keys)
	s := l.subscriptions[channel]
	if s == nil {
		s = new(subscription)
		l.subscriptions[channel] = s
		if l.core.Server.Sharded() {
			s.idle = time.AfterFunc(subscriptionStays, func() { l.unsubscribe(keys, s) })
		}
		s.cancel = l.core.Hub.Listen(channel, &pubsub.Listener{Up: func() { l.subscribed(s, channel) }, Message: l.message})
		return
	}
	if now := time.Now(); asked > 0 && asked == s.session && now.Sub(s.remade) > remakeEvery {
		s.remade = now
		l.core.Go(func() { l.core.Hub.Remake(channel) })
	}
}

// emptied is told that nobody waits for the lock any more. l.mu must be held.
func (l *Locker) emptied(keys lua.Keys) {
	if s := l.subscriptions[l.core.Server.Channel(keys)]; s != nil && s.idle != nil {
		s.idle.Reset(subscriptionStays)
	}
}

// unsubscribe ends the subscription for a lock for which nobody has waited for a while.
func (l *Locker) unsubscribe(keys lua.Keys, s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines[keys.Record()] == nil && !l.closed {
		delete(l.subscriptions, l.core.Server.Channel(keys))
		s.cancel()
	}
}

// subscribed has everybody who is told there enter: until now grants may have gone unheard.
func (l *Locker) subscribed(s *subscription, channel string) {
	l.mu.Lock()
	again := s.session > 0
	l.sessions++
	s.session = l.sessions
	for _, record := range slices.Sorted(maps.Keys(l.lines)) { // the same order every time
		if ln := l.lines[record]; l.core.Server.Channel(ln.keys) == channel {
			ln.enterAt(time.Now())
		}
	}
	l.mu.Unlock()
	if again {
		l.core.Settings.Observe(engine.Event{Kind: engine.Reconnected})
	}
}
