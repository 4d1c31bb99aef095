// Package pubsub lets many listeners share one subscription connection to a Redis server. Like
// package lua it is a lower layer of fairlock and makes no compatibility promise to importers.
//
// A [Hub] opens its connection in the background when the first listener comes. Until a listener's
// Up is called, the server may not know of the subscription. Whenever Up is called, messages may
// have been lost before. So a message tells no more than its own content, and at each Up the
// listener must ask the server for its state.
//
// The hub pings the server and replaces a connection that fails or stays silent. It does not let
// go-redis re-subscribe: at the first error the hub closes the connection and subscribes a new one
// from its own table of channels. (One shared connection with counted topics is the design of
// river's notifier.)
//
// docs/design.md in the repository tells what the messages say.
//
// On a Redis Cluster a sharded channel lives on the master of its slot. A [Cluster] keeps one Hub
// for each master and moves the channels when their slots move.
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
	lookEvery  = 470 * time.Millisecond // so that a look and a ping do not fall on one instant
	greetedIn  = 5 * time.Second        // where the client has no timeouts
	closedIn   = 6 * time.Second        // the same; longer, so that what greetedIn bounds is waited for
	minBackoff = 10 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Listener has the functions that a hub calls for a channel. The hub makes one call at a time, and
// none after Close has returned. The functions must not block.
type Listener struct {
	Up      func()               // the server has confirmed the subscription, for the first time or again
	Message func(payload string) // a message was published on the channel
}

// Hub shares one subscription connection between listeners. Its methods are safe for concurrent
// use.
type Hub struct {
	rdb redis.UniversalClient
	log *slog.Logger

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when run has returned

	timed bool // the user's client has timeouts

	changed chan struct{} // capacity 1: dirty is not empty

	overheard sync.WaitGroup // the goroutines of Overhear; none begins once closed is set

	// astray takes the channels that may live on another node. It is nil except in the hub of a
	// cluster node, where channels are sharded.
	astray func(channels []string)

	mu        sync.Mutex // guards all below
	listeners map[string]map[*Listener]struct{}
	dirty     map[string]struct{} // channels whose state the server has yet to be told
	unheard   map[string]struct{} // channels whose latest subscription was sent and not confirmed yet
	confirmed map[string]struct{} // channels whose subscription the present connection has confirmed
	end       func(why error)     // ends the latest connection; does nothing if that has ended; nil before the first
	started   bool
	closed    bool
	active    time.Time // when something last arrived on the connection
	pinged    time.Time // when the hub last sent a ping
	apart     bool      // the user may not hear some channel: each is subscribed by a command of its own
	refusals  bool      // the server has refused something for now, and the hub will soon repeat what is not confirmed
}

// New returns a hub without a connection.
func New(rdb redis.UniversalClient, log *slog.Logger) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{
		rdb: bounded(rdb), log: log, timed: timed(rdb),
		ctx: ctx, stop: stop, done: make(chan struct{}), changed: make(chan struct{}, 1),
		listeners: make(map[string]map[*Listener]struct{}), dirty: make(map[string]struct{}), unheard: make(map[string]struct{}),
		confirmed: make(map[string]struct{}),
	}
}

// bounded is the client, with timeouts if it has none: go-redis ends no greeting that goes
// unanswered, and a hub would wait for it for ever. They are not for what is heard.
func bounded(rdb redis.UniversalClient) redis.UniversalClient {
	client, ok := rdb.(*redis.Client)
	if !ok || client == nil || timed(rdb) {
		return rdb
	}
	return client.WithTimeout(greetedIn)
}

// timed reports whether the client is known to have timeouts for all that it does.
func timed(rdb any) bool {
	switch client := rdb.(type) {
	case *redis.Client:
		return client != nil && client.Options().ReadTimeout > 0 && client.Options().WriteTimeout > 0
	case *redis.ClusterClient:
		return client != nil && client.Options().ReadTimeout > 0 && client.Options().WriteTimeout > 0
	}
	return false
}

// closes calls wait, which waits for what go-redis does. If nothing bounds that, as a wrapped
// client, or what a client asks a sentinel as it dials, closes returns after closedIn.
func closes(timed bool, wait func()) {
	if timed {
		wait()
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		wait()
	}()
	timer := time.NewTimer(closedIn)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	}
}

// Listen adds l to the channel and returns at once. The hub subscribes in the background, and first
// connects if it has no connection yet. The returned function removes l again. After Close, Listen
// does nothing.
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
	h.touch(channel) // the server answers a repeated subscription, too: so a later listener gets its Up
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

// touch marks the channel, so that the server is told what the table says. h.mu must be held.
func (h *Hub) touch(channel string) {
	h.dirty[channel] = struct{}{}
	signal(h.changed)
}

// Remake replaces the connection: the caller has learned that the server does not see the
// subscription to the channel.
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

// Close ends the connection and returns when no listener can be called any more. Close takes at
// most as long as go-redis takes to give up a dial in progress; if the client has no timeouts, 6 s
// at most, and what go-redis is then about to do ends with the client.
func (h *Hub) Close() {
	h.stop() // the connection ends with h.ctx
	h.mu.Lock()
	h.closed = true
	started := h.started
	h.mu.Unlock()
	closes(h.timed, func() {
		if started {
			<-h.done
		}
		h.overheard.Wait()
	})
}
