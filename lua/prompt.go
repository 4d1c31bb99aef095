package lua

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a prompt request may keep its caller, and how long none are sent after one that was not answered in that time.
const (
	patience = 100 * time.Millisecond
	slowFor  = 5 * time.Second
)

// brisk is the user's client, same pool and all, but with deadlines obeyed. go-redis otherwise keeps a caller for its
// read timeout of seconds, and a goroutine that waits in the caller's stead costs as much as half a round trip.
type brisk struct {
	client *redis.Client
	slow   atomic.Int64 // until this time (Unix ns) the server is not expected to be prompt
}

// newBrisk returns nil for clients of several servers, which offer no such view.
func newBrisk(rdb redis.UniversalClient) *brisk {
	client, ok := rdb.(*redis.Client)
	if !ok || client == nil {
		return nil
	}
	view := client.WithTimeout(client.Options().ReadTimeout) // a copy with options of its own
	view.Options().ContextTimeoutEnabled = true
	return &brisk{client: view}
}

func (b *brisk) process(ctx context.Context, cmd redis.Cmder) {
	err := b.client.Process(ctx, cmd)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		b.slow.Store(time.Now().Add(slowFor).UnixNano())
	}
}

// prompt is a context under which every read and write has at most patience from when it begins.
type prompt struct{ context.Context }

func (p prompt) Deadline() (time.Time, bool) {
	at := time.Now().Add(patience)
	if earlier, ok := p.Context.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	return at, true
}

// Prompt derives from ctx one under which a request may be sent from the caller's own goroutine: it comes back at ctx's
// deadline, or after 100 ms with an error that leaves it open whether it was executed. False means that the server has
// not been prompt lately, or cannot be asked like this: wait for the answer elsewhere.
func (s *Server) Prompt(ctx context.Context) (context.Context, bool) {
	if s.brisk == nil || time.Now().UnixNano() < s.brisk.slow.Load() {
		return nil, false
	}
	return prompt{ctx}, true
}
