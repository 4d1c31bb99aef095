package pubsub

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Said is a published message. The zero Said marks where listening begins, for the first time or
// again: messages before it may have been missed.
type Said struct{ Channel, Payload string }

// Overhear yields the messages on all channels that match one of the patterns. It listens on a
// connection of its own, and replaces that when it fails or does not answer a ping for 3 s. Overhear
// ends with ctx, with the hub, with the client, if the first subscription fails, and if the server
// refuses a later one because the client may not listen any more. Then it yields the error last. A
// caller that is much slower than the messages come loses the connection, and is told so by a zero
// Said.
//
// Behind Sentinel, Overhear does not notice that a master was replaced that lives on and answers.
//
// Overhearing does not make a client look alive: fairlock takes a client for reachable if PUBSUB
// NUMSUB counts a subscriber on its channel, and PUBSUB NUMSUB does not count patterns.
func (h *Hub) Overhear(ctx context.Context, patterns ...string) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		if err := h.overhear(ctx, patterns, func(s Said) bool { return yield(s, nil) }); err != nil {
			yield(Said{}, err)
		}
	}
}

// overhear returns nil when the caller has heard enough.
func (h *Hub) overhear(ctx context.Context, patterns []string, more func(Said) bool) error {
	heard, backoff := false, minBackoff
	for {
		err := h.listen(ctx, patterns, func(s Said) bool {
			heard, backoff = true, minBackoff
			return more(s)
		})
		if err == nil || !heard || ctx.Err() != nil || h.ctx.Err() != nil || final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return redis.ErrClosed
		case <-h.ctx.Done():
			return redis.ErrClosed
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// final reports whether another connection will not do: the client is closed, or may not subscribe.
func final(err error) bool {
	return errors.Is(err, redis.ErrClosed) ||
		redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// listen is overhear on one connection. It returns an error when the connection fails, and waits
// for no dial: Close does.
func (h *Hub) listen(ctx context.Context, patterns []string, more func(Said) bool) error {
	e := &overhearing{
		sub: h.rdb.PSubscribe(h.ctx), patterns: patterns,
		connected: make(chan struct{}), made: make(chan struct{}), messages: make(chan any, 1000),
	}
	e.ctx, e.end = context.WithCancelCause(h.ctx)
	defer e.end(nil)
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.overheard.Go(e.run)
	}
	h.mu.Unlock()
	if closed {
		return redis.ErrClosed
	}
	confirmed := 0
	hears := func(message any) bool {
		switch m := message.(type) {
		case *redis.Subscription:
			if confirmed++; confirmed%len(patterns) == 0 { // go-redis may have made the connection again
				return more(Said{})
			}
		case *redis.Message:
			return more(Said{m.Channel, m.Payload})
		}
		return true
	}
	for {
		select {
		case <-ctx.Done():
			return redis.ErrClosed
		case message := <-e.messages:
			if !hears(message) {
				return nil
			}
			continue
		case <-e.ctx.Done():
		}
		for len(e.messages) > 0 && h.ctx.Err() == nil { // what came before the end
			if !hears(<-e.messages) {
				return nil
			}
		}
		return context.Cause(e.ctx)
	}
}

// overhearing is a connection that overhears.
type overhearing struct {
	sub       *redis.PubSub
	patterns  []string
	connected chan struct{}   // closed when go-redis has connected, or cannot
	made      chan struct{}   // closed when the patterns were sent
	ctx       context.Context // ends with the connection; its cause is why
	end       context.CancelCauseFunc
	messages  chan any
	full      atomic.Bool // the caller is slower than the messages come: nothing is read
	arrived   atomic.Bool // something was, since the last ping
}

// run has the connection used until it ends.
func (e *overhearing) run() {
	var beside sync.WaitGroup
	beside.Go(func() { closeAfter(e.ctx, e.connected, e.sub) })
	beside.Go(func() { e.end(whole(e.ping)) })
	over(whole(e.read), e.end, &beside)
}

func (e *overhearing) subscribe() error {
	defer close(e.connected)
	return e.sub.PSubscribe(e.ctx, e.patterns...)
}

// read subscribes, and reads until the connection ends. A server whose answers nobody reads ends it
// some time.
func (e *overhearing) read() error {
	if err := e.subscribe(); err != nil {
		return err
	}
	close(e.made)
	for confirmed := 0; ; {
		message, err := e.sub.Receive(e.ctx)
		e.arrived.Store(true)
		if passing(err) && confirmed >= len(e.patterns) { // a ping was refused
			continue
		}
		if err != nil {
			return err
		}
		if _, ok := message.(*redis.Subscription); ok {
			confirmed++
		}
		e.full.Store(true)
		select {
		case e.messages <- message:
		case <-e.ctx.Done():
			return nil
		}
		e.full.Store(false)
	}
}

// ping returns when the connection ends, or does not answer a ping.
func (e *overhearing) ping() error {
	select {
	case <-e.ctx.Done():
		return nil
	case <-e.made:
	}
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for pinged := false; ; pinged = true {
		select {
		case <-e.ctx.Done():
			return nil
		case <-tick.C:
		}
		if e.full.Load() {
			e.arrived.Store(true)
			continue
		}
		err := errSilent
		if e.arrived.Swap(false) || !pinged {
			err = e.sub.Ping(e.ctx)
		}
		if err != nil {
			return err
		}
	}
}
