package pubsub

import (
	"context"
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
// connection of its own, and replaces that when it fails or answers no ping for 6 s. Overhear ends
// with ctx, with the hub, if the first subscription fails, and if the server refuses a later one
// because the client may not listen any more. Then it yields the error last. A caller that is much
// slower than the messages come loses the connection, and is told so by a zero Said.
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
		if err == nil || !heard || ctx.Err() != nil || h.ctx.Err() != nil || forbidden(err) {
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

// forbidden reports whether the server says that the client may not subscribe.
func forbidden(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS")
}

// listen is overhear on one connection. It returns an error when the connection fails.
func (h *Hub) listen(ctx context.Context, patterns []string, more func(Said) bool) error {
	e := &overhearing{sub: h.rdb.PSubscribe(h.ctx), patterns: len(patterns), messages: make(chan any, 1000)}
	e.ctx, e.cancel = context.WithCancelCause(h.ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer e.end(nil)
	stop := context.AfterFunc(h.ctx, func() { e.end(redis.ErrClosed) })
	defer stop()
	if err := e.sub.PSubscribe(ctx, patterns...); err != nil {
		return err
	}
	all.Go(e.read)
	all.Go(e.ping)
	for confirmed := 0; ; {
		var message any
		select {
		case <-ctx.Done():
			return redis.ErrClosed
		case <-e.ctx.Done():
			return context.Cause(e.ctx)
		case message = <-e.messages:
		}
		going := true
		switch m := message.(type) {
		case *redis.Subscription:
			if confirmed++; confirmed == len(patterns) {
				going = more(Said{})
			}
		case *redis.Message:
			going = more(Said{m.Channel, m.Payload})
		}
		if !going {
			return nil
		}
	}
}

// overhearing is a connection that overhears.
type overhearing struct {
	sub      *redis.PubSub
	patterns int
	ctx      context.Context // ends with the connection; its cause is why
	cancel   context.CancelCauseFunc
	messages chan any
	full     atomic.Bool // the caller is slower than the messages come: nothing is read
	arrived  atomic.Bool // something was, since the last ping
}

// end ends the connection: what reads from it returns when it is closed, and not with a context.
func (e *overhearing) end(why error) {
	e.cancel(why) // first: go-redis may be reconnecting at this moment, and Close would wait for that
	_ = e.sub.Close()
}

// read reads until the connection ends. A server whose answers nobody reads ends it some time.
func (e *overhearing) read() {
	for confirmed := 0; ; {
		message, err := e.sub.Receive(e.ctx)
		e.arrived.Store(true)
		refused := redis.HasErrorPrefix(err, "BUSY") || redis.HasErrorPrefix(err, "MISCONF")
		if refused && confirmed == e.patterns { // a ping was refused
			continue
		}
		if err != nil {
			e.end(err)
			return
		}
		if _, ok := message.(*redis.Subscription); ok {
			confirmed++
		}
		e.full.Store(true)
		select {
		case e.messages <- message:
		case <-e.ctx.Done():
			return
		}
		e.full.Store(false)
	}
}

// ping ends a connection that does not answer pings.
func (e *overhearing) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for pinged := false; ; pinged = true {
		select {
		case <-e.ctx.Done():
			return
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
			e.end(err)
			return
		}
	}
}
