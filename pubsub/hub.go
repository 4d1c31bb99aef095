// Package pubsub is the ground floor of fairlock beside package lua, and promises its importers
// nothing: how does a process hear of it? One subscription connection has many listeners.
//
// A [Hub] opens its connection when the first listener comes and nobody waits for it: until a listener's Up is called
// the server may not know of the subscription, and after it anything may have been missed. What arrives is therefore
// never more than the message says; whoever listens asks the server again whenever Up is called.
//
// The hub pings by itself and replaces a connection that fails or stays silent. It never lets go-redis re-subscribe on
// its own: at the first error the connection is closed and a new one is built from the hub's own table. (The habit of one
// shared connection with counted topics is river's notifier's.)
//
// docs/design.md in the repository tells what the messages say.
//
// On a Redis Cluster a channel lives where its slot does. A [Cluster] has a Hub for each master and follows the channels.
package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pingEvery  = 3 * time.Second
	lookEvery  = 470 * time.Millisecond // never at the instant of a ping
	minBackoff = 10 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Listener is called by the hub, one call at a time and never after Close has returned. Its functions must not block.
type Listener struct {
	Up      func()               // the server has confirmed the subscription, for the first time or again
	Message func(payload string) // something was published
}

// Hub shares one subscription connection between listeners. Its methods are safe for concurrent use.
type Hub struct {
	rdb redis.UniversalClient
	log *slog.Logger

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when run has returned

	changed chan struct{} // holds one: dirty is not empty

	// Of a node of a cluster, on which channels are sharded: it is given those that may live elsewhere. Else nil.
	astray func(channels []string)

	mu        sync.Mutex // guards all below
	listeners map[string]map[*Listener]struct{}
	dirty     map[string]struct{} // channels of which the server has to be told
	unheard   map[string]struct{} // sharded channels of which it was told and that it has yet to confirm
	end       func(why error)     // ends the latest connection, or does nothing if it has ended; nil before the first
	started   bool
	closed    bool
	active    time.Time // when something last arrived on sub
	pinged    time.Time // when it was last pinged
	refusals  bool      // the server has refused something for now, and all is about to be repeated
}

// New returns a hub without a connection.
func New(rdb redis.UniversalClient, log *slog.Logger) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{
		rdb: rdb, log: log,
		ctx: ctx, stop: stop, done: make(chan struct{}), changed: make(chan struct{}, 1),
		listeners: make(map[string]map[*Listener]struct{}), dirty: make(map[string]struct{}), unheard: make(map[string]struct{}),
	}
}

// Listen adds l to the channel and returns at once; the subscription is made in the background, and the connection too
// if this is the first. The returned function takes l away again. After Close it does nothing.
func (h *Hub) Listen(channel string, l *Listener) (forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return func() {}
	}
	if h.listeners[channel] == nil {
		h.listeners[channel] = make(map[*Listener]struct{})
	}
	h.listeners[channel][l] = struct{}{}
	h.touch(channel) // subscribing again is answered again, which is how a later listener learns that it is up
	if !h.started {
		h.started = true
		go h.run()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.listeners[channel], l)
		if len(h.listeners[channel]) == 0 {
			delete(h.listeners, channel)
			h.touch(channel)
		}
	}
}

// touch has the channel told to the server as the table then says. h.mu must be held.
func (h *Hub) touch(channel string) {
	h.dirty[channel] = struct{}{}
	signal(h.changed)
}

// Remake replaces the connection: somebody learned that the server does not see the subscription to the channel.
func (h *Hub) Remake(string) { h.endWith(errUnseen) }

// endWith ends the present connection, if there is one. h.mu must not be held.
func (h *Hub) endWith(why error) {
	h.mu.Lock()
	end := h.end
	h.mu.Unlock()
	if end != nil {
		end(why)
	}
}

// Close ends the connection and returns when no listener can be called any more. It takes no longer than go-redis needs to
// give up a dial in progress.
func (h *Hub) Close() {
	h.stop() // first: a connection that is not in the table yet finds it out when it comes there
	h.mu.Lock()
	h.closed = true
	started := h.started
	h.mu.Unlock()
	h.endWith(context.Canceled)
	if started {
		<-h.done
	}
}
