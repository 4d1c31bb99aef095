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
		up := func() {
			backoff = minBackoff
			outage.over()
		}
		err := h.connection(up, func(err error) {
			if h.serves() {
				up()
			}
			outage.refused(err)
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

// connection makes one connection and reads from it until it fails.
func (h *Hub) connection(confirmed func(), refused func(error)) error {
	ctx, end := context.WithCancelCause(h.ctx)
	sub := h.rdb.Subscribe(ctx)
	var beside sync.WaitGroup
	connected := make(chan struct{})
	beside.Go(func() { closeAfter(ctx, connected, sub) })
	h.adopt(end)
	tell := func() error {
		defer close(connected)
		return h.tell(ctx, sub)
	}
	err := whole(func() error {
		if err := tell(); err != nil {
			return err
		}
		beside.Go(func() { end(whole(func() error { return h.write(ctx, sub) })) })
		return h.read(ctx, sub, confirmed, refused)
	})
	over(err, end, &beside)
	return err
}

// over ends a connection whose reader has returned that error, and waits for what else uses it. If
// the reader was cut short, that may never end: go-redis may have left its mutex locked.
func over(err error, end context.CancelCauseFunc, beside *sync.WaitGroup) {
	end(err)
	if err != errCutShort { //nolint:errorlint // an error may be of the user's own type
		beside.Wait()
	}
}

// closeAfter closes the connection when ctx ends: its reader notices that, and not a context. While
// go-redis connects, it keeps a mutex that Close waits for. A goroutine that waits for a mutex lets
// no time pass in a bubble of testing/synctest, and go-redis would connect for ever.
func closeAfter(ctx context.Context, connected <-chan struct{}, sub *redis.PubSub) {
	<-ctx.Done()
	<-connected
	_ = sub.Close()
}

// errCutShort is the error of what did not come to its end: a hook, a dialer or the like of the
// user's called runtime.Goexit.
var errCutShort = errors.New("cut short: a hook of the client's has ended the goroutine")

// whole runs f, in which go-redis may call the user's code, in a goroutine that this may end.
func whole(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errCutShort
		defer func() { done <- err }()
		err = f()
	}()
	return <-done
}

// read reads until the connection fails. It calls confirmed after whatever the server sends, unless
// a subscription is yet to be confirmed: a server that confirms some and then refuses one would be
// asked again as fast as it answers. It calls refused if the user may not hear a channel. Another
// goroutine writes the subscriptions, so reading needs no deadline. A deadline would do harm: after
// a timeout in the middle of a message, go-redis reads on and takes the rest of the message for an
// answer to a ping.
func (h *Hub) read(ctx context.Context, sub *redis.PubSub, confirmed func(), refused func(error)) error {
	for {
		message, err := sub.Receive(ctx)
		switch {
		case h.misplaced(err):
			continue
		case h.refused(err):
			if forbidden(err) {
				refused(h.named(err))
			}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return h.named(err)
		}
		if h.arrived(message) {
			confirmed()
		}
		h.dispatch(message)
	}
}

// refused reports whether the server refused a ping or a subscription because of a state that
// passes, or one channel that the user may not hear. The server is alive, and its confirmed
// subscriptions stand: a new connection would lose them. It takes one after a command that was for
// several channels: they all were refused.
func (h *Hub) refused(err error) bool {
	one := h.astray == nil && forbidden(err)
	if !passing(err) && !one {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if one && !h.apart {
		h.apart = true
		return false
	}
	h.active = time.Now()
	if !h.refusals {
		h.refusals = true
		time.AfterFunc(maxBackoff, h.repeat)
	}
	return true
}

// serves reports whether some channel is heard.
func (h *Hub) serves() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.confirmed) > 0
}

// forbidden reports whether the user may not do what was asked.
func forbidden(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

// passing reports whether the server refused something because of a state that passes.
func passing(err error) bool {
	return redis.HasErrorPrefix(err, "BUSY") || redis.HasErrorPrefix(err, "MISCONF")
}

// repeat makes the subscriptions again that are not confirmed: the server refused something,
// perhaps one of them. To make the others again would tell their listeners of a gap that is none.
func (h *Hub) repeat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusals = false
	for channel := range h.unheard {
		h.touch(channel)
	}
}

// named adds to a refusal the channels that it may be about: the server does not name them.
func (h *Hub) named(err error) error {
	if !forbidden(err) {
		return err
	}
	h.mu.Lock()
	channels := slices.Sorted(maps.Keys(h.listeners))
	if h.apart && len(h.unheard) > 0 {
		channels = slices.Sorted(maps.Keys(h.unheard))
	}
	h.mu.Unlock()
	return fmt.Errorf("subscribing to %s: %w", strings.Join(channels, ", "), err)
}

// adopt makes the new connection the present one: end ends it, and all channels have yet to be
// subscribed on it.
func (h *Hub) adopt(end func(why error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end, h.active, h.pinged = end, time.Now(), time.Time{}
	clear(h.dirty)
	clear(h.unheard)
	clear(h.confirmed)
	for channel := range h.listeners {
		h.touch(channel)
	}
}

// write is the only writer of a connection. It subscribes, unsubscribes and pings, until the
// connection ends or does not answer.
func (h *Hub) write(ctx context.Context, sub *redis.PubSub) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-h.changed:
			err = h.tell(ctx, sub)
		case <-tick.C:
			if err = errSilent; !h.silent() {
				err = sub.Ping(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// lookOut asks the server that requests go to whether it sees the subscription, whenever go-redis
// has dropped connections. After a Sentinel failover go-redis closes its pooled connections to the
// old master, but not our subscription. The old master may live on for a while and answer pings. It
// asks until there is an answer: nothing else would end such a subscription.
func (h *Hub) lookOut() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	dropped := h.rdb.PoolStats().StaleConns
	for h.ctx.Err() == nil { // after a long look, both cases of the select may be ready
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		if now := h.rdb.PoolStats().StaleConns; now != dropped && h.look() {
			dropped = now
		}
	}
}

// look asks about one of the channels, and ends the connection if the server does not see it. A
// connection that has yet to confirm its channels is left alone: it goes where the requests go.
// look reports whether there is no need to ask again.
func (h *Hub) look() bool {
	h.mu.Lock()
	end, channels := h.end, slices.Sorted(maps.Keys(h.confirmed))
	h.mu.Unlock()
	if end == nil || len(channels) == 0 {
		return true
	}
	channel := channels[len(channels)-1] // any will do; but a simulation should pick the same one each time
	var seen map[string]int64
	refused := false
	err := whole(func() (err error) {
		seen, err = h.rdb.PubSubNumSub(h.ctx, channel).Result()
		var reply redis.Error
		refused = errors.As(err, &reply) && !redis.HasErrorPrefix(err, "BUSY")
		return err
	})
	if err != nil || seen[channel] != 0 {
		return err == nil || refused
	}
	h.mu.Lock()
	_, confirmed := h.confirmed[channel]
	left := h.listeners[channel] == nil || !confirmed // meanwhile
	h.mu.Unlock()
	if !left {
		end(errOverlooked)
	}
	return true
}

// tell sends the server what the table says of the dirty channels.
func (h *Hub) tell(ctx context.Context, sub *redis.PubSub) error {
	var on, off []string
	h.mu.Lock()
	if ctx.Err() != nil { // the next connection's own writer may be at work
		h.mu.Unlock()
		signal(h.changed)
		return context.Cause(ctx)
	}
	for channel := range h.dirty {
		if h.listeners[channel] != nil {
			on = append(on, channel)
		} else {
			off = append(off, channel)
			delete(h.confirmed, channel)
		}
	}
	clear(h.dirty)
	apart := h.apart
	h.mu.Unlock()
	switch {
	case h.astray != nil:
		return h.tellEach(ctx, on, off, sub.SSubscribe, sub.SUnsubscribe)
	case apart:
		return h.tellEach(ctx, on, off, sub.Subscribe, sub.Unsubscribe)
	}
	h.expect(on, off)
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

// expect notes which subscriptions are to be confirmed.
func (h *Hub) expect(on, off []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, channel := range off {
		delete(h.unheard, channel) // nobody waits for it any more
	}
	for _, channel := range on {
		h.unheard[channel] = struct{}{}
	}
}

var (
	errSilent     = errors.New("no answer to a ping")
	errOverlooked = errors.New("the server that requests go to does not see it")
	errUnseen     = errors.New("a script does not see it")
)

// silent reports whether nothing has arrived since the previous ping. If something has, silent
// notes the time of the ping that comes now.
func (h *Hub) silent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pinged.After(h.active) {
		return true
	}
	h.pinged = time.Now()
	return false
}

// arrived notes what the server has sent, and reports whether nothing is left to be confirmed.
func (h *Hub) arrived(message any) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = time.Now()
	// The end of an earlier subscription, or a message that came by it, confirms no later one.
	if m, ok := message.(*redis.Subscription); ok && (m.Kind == "subscribe" || m.Kind == "ssubscribe") {
		delete(h.unheard, m.Channel)
		if m.Kind == "subscribe" && h.listeners[m.Channel] != nil {
			h.confirmed[m.Channel] = struct{}{}
		}
	}
	h.apart = h.apart && len(h.unheard) > 0
	return len(h.unheard) == 0
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
	var to []*Listener
	for l := range h.listeners[channel] {
		to = append(to, l)
	}
	h.mu.Unlock()
	for _, l := range to {
		call(l)
	}
}
