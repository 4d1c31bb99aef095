package pubsub

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// This file has what a Hub does on a node of a cluster.

// tellEach is tell with one command per channel: a node refuses one command for several slots, and
// a server one for several channels if it refuses one of them.
func (h *Hub) tellEach(ctx context.Context, on, off []string, begin, end func(context.Context, ...string) error) error {
	for _, channel := range off {
		if err := end(ctx, channel); err != nil {
			return err
		}
	}
	h.expect(on, off)
	for _, channel := range on {
		if err := begin(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// misplaced reports whether the node refused a subscription because the slot is not its own, or is
// not served now. The refusal does not name the channel, so all unconfirmed channels are looked
// for: subscribing once more does no harm.
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

// dismissed notes that the node no longer sends us a channel: we asked for that, or its slot has
// moved.
func (h *Hub) dismissed(channel string) {
	h.mu.Lock()
	wanted := h.listeners[channel] != nil
	h.mu.Unlock()
	if wanted {
		h.stray([]string{channel})
	}
}

// stray says that the channels may live elsewhere. h.mu must not be held.
func (h *Hub) stray(channels []string) {
	if h.astray != nil && len(channels) > 0 {
		h.astray(channels)
	}
}

// channels returns the channels with a listener.
func (h *Hub) channels() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.listeners {
		all = append(all, channel)
	}
	return all
}

// idle reports whether no channel has a listener.
func (h *Hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) == 0
}

// again subscribes to the channel once more if it has a listener.
func (h *Hub) again(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[channel] != nil {
		h.touch(channel)
	}
}
