package pubsub

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// run keeps a connection until Close.
func (h *Hub) run() {
	defer close(h.done)
	if h.astray == nil {
		var lookout sync.WaitGroup
		defer lookout.Wait()
		lookout.Go(h.lookOut)
	}
	backoff := minBackoff
	for {
		confirmed, err := h.connection()
		if h.ctx.Err() != nil {
			return
		}
		if confirmed {
			backoff = minBackoff
		}
		h.log.Warn("fairlock: subscription lost, making it again", "error", err, "in", backoff)
		h.stray(h.channels())
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connection makes one connection and reads until it fails. What to subscribe is written beside the reading.
func (h *Hub) connection() (confirmed bool, err error) {
	sub := h.rdb.Subscribe(h.ctx)
	quit := make(chan struct{})
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(quit)
	defer func() { _ = sub.Close() }()

	h.adopt(sub)
	if h.ctx.Err() != nil {
		return false, h.ctx.Err()
	}
	if err := h.tell(sub); err != nil {
		return false, err
	}
	writer.Go(func() { h.write(sub, quit) })
	for {
		message, err := sub.ReceiveTimeout(h.ctx, lookEvery)
		if h.overlooked.Load() == sub {
			return confirmed, errOverlooked
		}
		if h.misplaced(err) || errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return confirmed, h.named(err)
		}
		confirmed = true
		h.dispatch(message)
	}
}

// named makes a refusal say which channels it may be about; the server tells only that there is one.
func (h *Hub) named(err error) error {
	if !redis.HasErrorPrefix(err, "NOPERM") {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("subscribing to %s: %w", strings.Join(slices.Sorted(maps.Keys(h.listeners)), ", "), err)
}

// adopt makes sub the present connection, on which everything has yet to be subscribed.
func (h *Hub) adopt(sub *redis.PubSub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sub, h.active, h.pinged = sub, time.Now(), time.Time{}
	clear(h.dirty)
	clear(h.unheard)
	for channel := range h.listeners {
		h.touch(channel)
	}
}

// write is the only writer of a connection: it subscribes, unsubscribes and pings, and closes one that does not answer.
func (h *Hub) write(sub *redis.PubSub, quit <-chan struct{}) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-quit:
			return
		case <-h.changed:
			err = h.tell(sub)
		case <-tick.C:
			if err = errSilent; !h.silent() {
				err = sub.Ping(h.ctx)
			}
		}
		if err != nil {
			_ = sub.Close() // the reader notices
			return
		}
	}
}

// lookOut asks whether the subscription is seen where requests go to, when the client has thrown connections away. Behind
// sentinels it does so with all to a master that is none any more, but not with ours; and such a master may live on for a while.
func (h *Hub) lookOut() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	dropped := h.rdb.PoolStats().StaleConns
	for h.ctx.Err() == nil { // a look may outlast both
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		before := dropped
		if dropped = h.rdb.PoolStats().StaleConns; dropped != before {
			h.look()
		}
	}
}

// look asks about one of the channels. What it finds is told to the reader of the connection: to close it would wait for go-redis, if
// that should be making it again at this moment.
func (h *Hub) look() {
	h.mu.Lock()
	sub, channels := h.sub, slices.Sorted(maps.Keys(h.listeners))
	h.mu.Unlock()
	if len(channels) == 0 {
		return
	}
	channel := channels[len(channels)-1] // any will do, but a simulation should have the same one each time
	seen, err := h.rdb.PubSubNumSub(h.ctx, channel).Result()
	if err == nil && seen[channel] == 0 {
		h.overlooked.Store(sub)
	}
}

// tell brings the server's view of the dirty channels up to the table's.
func (h *Hub) tell(sub *redis.PubSub) error {
	var on, off []string
	h.mu.Lock()
	for channel := range h.dirty {
		if h.listeners[channel] != nil {
			on = append(on, channel)
		} else {
			off = append(off, channel)
		}
	}
	clear(h.dirty)
	h.mu.Unlock()
	if h.astray != nil {
		return h.tellEach(sub, on, off)
	}
	if len(off) > 0 {
		if err := sub.Unsubscribe(h.ctx, off...); err != nil {
			return err
		}
	}
	if len(on) > 0 {
		return sub.Subscribe(h.ctx, on...)
	}
	return nil
}

var (
	errSilent     = errors.New("no answer to a ping")
	errOverlooked = errors.New("the server that requests go to does not see it")
)

// silent reports whether nothing has come since the ping before this one, and notes this one.
func (h *Hub) silent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pinged.After(h.active) {
		return true
	}
	h.pinged = time.Now()
	return false
}

func (h *Hub) dispatch(message any) {
	var channel string
	var call func(*Listener)
	switch m := message.(type) {
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			channel, call = m.Channel, func(l *Listener) { l.Up() }
		case "sunsubscribe":
			h.dismissed(m.Channel)
		}
	case *redis.Message:
		channel, call = m.Channel, func(l *Listener) { l.Message(m.Payload) }
	}
	h.mu.Lock()
	h.active = time.Now()
	delete(h.unheard, channel)
	var to []*Listener
	for l := range h.listeners[channel] {
		to = append(to, l)
	}
	h.mu.Unlock()
	for _, l := range to {
		call(l)
	}
}
