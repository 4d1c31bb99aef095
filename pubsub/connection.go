package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	outage := outage{log: h.log}
	backoff := minBackoff
	for {
		err := h.connection(func() {
			backoff = minBackoff
			outage.over()
		})
		if h.ctx.Err() != nil {
			return
		}
		outage.goesOn(err)
		h.stray(h.channels())
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// connection makes one connection and reads until it fails; it says when the server has confirmed
// something. What to subscribe is written beside the reading. That has no deadline, for go-redis
// would go on in the middle of what it has read a part of, and take the rest of a message for an
// answer to a ping.
func (h *Hub) connection(confirmed func()) error {
	ctx, cancel := context.WithCancelCause(h.ctx)
	sub := h.rdb.Subscribe(ctx)
	end := func(why error) {
		cancel(why)     // first: go-redis may be making it again at this moment, and closing would wait for that
		_ = sub.Close() // the reader notices
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer end(nil)

	h.adopt(end)
	if err := h.tell(ctx, sub); err != nil {
		return err
	}
	writer.Go(func() { h.write(ctx, sub, end) })
	for {
		message, err := sub.Receive(ctx)
		if h.misplaced(err) || h.refused(err) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return h.named(err)
		}
		confirmed()
		h.dispatch(message)
	}
}

// refused takes in that the server refused a ping, or a subscription, because of a state that
// passes. It is alive, and what it has confirmed stands: to make the connection again would lose
// that.
func (h *Hub) refused(err error) bool {
	if !redis.HasErrorPrefix(err, "BUSY") && !redis.HasErrorPrefix(err, "MISCONF") {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = time.Now()
	if !h.refusals {
		h.refusals = true
		time.AfterFunc(maxBackoff, h.repeat)
	}
	return true
}

// repeat has everything subscribed once more: something was refused, and it may have been that.
func (h *Hub) repeat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusals = false
	for channel := range h.listeners {
		h.touch(channel)
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

// adopt makes a connection that end ends the present one, on which everything has yet to be
// subscribed.
func (h *Hub) adopt(end func(why error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end, h.active, h.pinged = end, time.Now(), time.Time{}
	clear(h.dirty)
	clear(h.unheard)
	for channel := range h.listeners {
		h.touch(channel)
	}
}

// write is the only writer of a connection: it subscribes, unsubscribes and pings, and ends one
// that does not answer.
func (h *Hub) write(ctx context.Context, sub *redis.PubSub, end func(why error)) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			err = h.tell(ctx, sub)
		case <-tick.C:
			if err = errSilent; !h.silent() {
				err = sub.Ping(ctx)
			}
		}
		if err != nil {
			end(err)
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

// look asks about one of the channels.
func (h *Hub) look() {
	h.mu.Lock()
	end, channels := h.end, slices.Sorted(maps.Keys(h.listeners))
	h.mu.Unlock()
	if end == nil || len(channels) == 0 {
		return
	}
	channel := channels[len(channels)-1] // any will do, but a simulation should have the same one each time
	seen, err := h.rdb.PubSubNumSub(h.ctx, channel).Result()
	if err == nil && seen[channel] == 0 {
		end(errOverlooked)
	}
}

// tell brings the server's view of the dirty channels up to the table's.
func (h *Hub) tell(ctx context.Context, sub *redis.PubSub) error {
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
		return h.tellEach(ctx, sub, on, off)
	}
	if len(off) > 0 {
		if err := sub.Unsubscribe(ctx, off...); err != nil {
			return err
		}
	}
	if len(on) > 0 {
		return sub.Subscribe(ctx, on...)
	}
	return nil
}

var (
	errSilent     = errors.New("no answer to a ping")
	errOverlooked = errors.New("the server that requests go to does not see it")
	errUnseen     = errors.New("a script does not see it")
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
