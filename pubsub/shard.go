package pubsub

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// What a Hub does on a node of a cluster.

// tellEach is tell with a command for each channel: a node takes those of one slot together only.
func (h *Hub) tellEach(ctx context.Context, sub *redis.PubSub, on, off []string) error {
	for _, channel := range off {
		if err := sub.SUnsubscribe(ctx, channel); err != nil {
			return err
		}
	}
	h.mu.Lock()
	for _, channel := range on {
		h.unheard[channel] = struct{}{}
	}
	h.mu.Unlock()
	for _, channel := range on {
		if err := sub.SSubscribe(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// misplaced takes in that the node refused a subscription because the slot is not its own, or not served now. It does not say
// of which channel, so all that are not confirmed yet are looked for: to subscribe once more harms none.
func (h *Hub) misplaced(err error) bool {
	refused := func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }
	if h.astray == nil || !slices.ContainsFunc([]string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN"}, refused) {
		return false
	}
	h.mu.Lock()
	var channels []string
	for channel := range h.unheard {
		channels = append(channels, channel)
	}
	clear(h.unheard)
	h.mu.Unlock()
	h.stray(channels)
	return true
}

// dismissed takes in that the node no longer tells us of a channel: we asked for that, or its slot has moved.
func (h *Hub) dismissed(channel string) {
	h.mu.Lock()
	wanted := h.listeners[channel] != nil
	h.mu.Unlock()
	if wanted {
		h.stray([]string{channel})
	}
}

// stray says that channels may live elsewhere. h.mu must not be held.
func (h *Hub) stray(channels []string) {
	if h.astray != nil && len(channels) > 0 {
		h.astray(channels)
	}
}

// channels are those that somebody listens to.
func (h *Hub) channels() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.listeners {
		all = append(all, channel)
	}
	return all
}

// again subscribes to a channel once more, if somebody listens to it.
func (h *Hub) again(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[channel] != nil {
		h.touch(channel)
	}
}
