package pubsub

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// Said is something that was published. The zero Said is where listening begins, for the first time or again: anything
// before it may have been missed.
type Said struct{ Channel, Payload string }

// Overhear goes through what others are told on all channels that match a pattern, over a connection of its own that is
// made again whenever it fails. It ends with ctx, with the hub, and if the server refuses the patterns; what is said faster
// than it is taken in is missed in the end.
//
// Who subscribes to a pattern is nobody to PUBSUB NUMSUB, by which a client is found to be reachable.
func (h *Hub) Overhear(ctx context.Context, patterns ...string) iter.Seq2[Said, error] {
	return func(yield func(Said, error) bool) {
		if err := h.overhear(ctx, patterns, func(s Said) bool { return yield(s, nil) }); err != nil {
			yield(Said{}, err)
		}
	}
}

// overhear returns nil when enough was heard.
func (h *Hub) overhear(ctx context.Context, patterns []string, more func(Said) bool) error {
	sub := h.rdb.PSubscribe(h.ctx)
	end := func() { _ = sub.Close() } // what Receive heeds, rather than a context
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
			return confirmed%len(patterns) != 0 || more(Said{})
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
	messages := sub.ChannelWithSubscriptions() // go-redis pings and subscribes again
	for message := range messages {
		if !hears(message) {
			end()
			for range messages { // nobody is left who wants to say something
			}
			return nil
		}
	}
	return redis.ErrClosed
}
