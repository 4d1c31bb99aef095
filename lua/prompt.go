package lua

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a prompt request keeps its caller where the client obeys deadlines, and how long there are none after one that
// was not answered in that time.
const (
	patience = 100 * time.Millisecond
	slowFor  = 5 * time.Second
)

// manner is what the client is known to do with a context.
type manner struct {
	obeys bool          // its deadline bounds reads and writes
	bound time.Duration // what else does; 0: nothing
	slow  atomic.Int64  // until this time (Unix ns) the server is not expected to be prompt
}

func (m *manner) learn(rdb redis.UniversalClient) {
	switch client := rdb.(type) {
	case *redis.Client:
		if client != nil {
			o := client.Options()
			m.obeys, m.bound = o.ContextTimeoutEnabled, max(0, o.ReadTimeout)
		}
	case *redis.ClusterClient:
		if client != nil {
			o := client.Options()
			m.obeys, m.bound = o.ContextTimeoutEnabled, max(0, o.ReadTimeout)
		}
	}
}

// Bound is the client's read timeout: what it waits for the answer to a request at most. 0: there is none.
func (s *Server) Bound() time.Duration { return s.manner.bound }

// took notes how long a request took.
func (m *manner) took(d time.Duration, err error) {
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() && d >= patience { //nolint:errorlint // as go-redis returns it
		m.slow.Store(time.Now().Add(slowFor).UnixNano())
	}
}

// prompt is a context that an obedient client obeys soon.
type prompt struct{ context.Context }

// Deadline gives every read and write, as it begins, at most patience.
func (p prompt) Deadline() (time.Time, bool) {
	end, ok := p.Context.Deadline()
	if at := time.Now().Add(patience); !ok || at.Before(end) {
		return at, true
	}
	return end, true
}

// Prompt derives from ctx one under which a request may be sent from the caller's own goroutine, which saves the time
// that it takes to wait in the caller's stead: half a round trip on a busy machine. It comes back
//
//   - at ctx's deadline, or after 100 ms of silence, if the client has ContextTimeoutEnabled;
//   - otherwise after the client's read timeout, so that must be within limit, and ctx one that cannot end.
//
// Silence leaves it open whether the request was executed. False means that the caller would be kept longer than its context
// allows, or that the server has not been prompt lately: wait for the answer elsewhere.
func (s *Server) Prompt(ctx context.Context, limit time.Duration) (context.Context, bool) {
	m := &s.manner
	kept := m.bound > 0 && m.bound <= limit && ctx.Done() == nil
	if time.Now().UnixNano() < m.slow.Load() || !m.obeys && !kept {
		return nil, false
	}
	if m.obeys {
		ctx = prompt{ctx}
	}
	return ctx, true
}
