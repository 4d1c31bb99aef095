package pubsub

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// Said is a published message. The zero Said marks where listening begins, for the first time or
// again: messages before it may have been missed.
type Said struct{ Channel, Payload string }

// Overhear yields the messages on all channels that match one of the patterns. It listens on a
// connection of its own and replaces that whenever it fails. Overhear ends with ctx, with the hub,
// and if the first subscription fails, for example because the server refuses the patterns. Then it
// yields the error last. A caller that is slower than the messages come misses some in the end.
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
	sub := h.rdb.PSubscribe(h.ctx)
	end := func() { _ = sub.Close() } // Receive returns when sub is closed, not when a context ends
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	stopHub := context.AfterFunc(h.ctx, end)
	defer stopHub()
	confirmed := 0
	hears := func(message any) bool {
		switch m := message.(type) {
		case *redis.Subscription:
			confirmed++
			return m.Count < len(patterns) || more(Said{})
		case *redis.Message:
			return more(Said{m.Channel, m.Payload})
		}
		return true
	}

	if err := sub.PSubscribe(ctx, patterns...); err != nil {
		return err
	}
	for confirmed < len(patterns) {
		message, err := sub.Receive(h.ctx)
		if err != nil {
			return err
		}
		if !hears(message) {
			return nil
		}
	}
	messages := sub.ChannelWithSubscriptions() // go-redis pings and re-subscribes by itself here
	for message := range messages {
		if !hears(message) {
			end()
			for range messages { // let the sender of go-redis end
			}
			return nil
		}
	}
	return redis.ErrClosed
}
