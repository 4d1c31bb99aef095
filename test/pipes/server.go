// Package pipes leads to an embedded server without sockets, which do not work in fake time
// (testing/synctest).
package pipes

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Server is an embedded server that listens nowhere. Somebody may dial while it closes: a go-redis
// client goes on with a dial that nobody wants any more.
type Server struct {
	*miniredis.Miniredis

	mu     sync.RWMutex // a dial reads under it; guards closed
	closed bool
}

// New is a server for the time of a test. It closes after what is cleaned up later.
func New(t testing.TB) *Server {
	s := &Server{Miniredis: miniredis.NewMiniRedis()}
	s.ClockTTL(true)
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.Miniredis.Close()
}

// Dial is the Dialer of a client.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	pipe, err := s.Miniredis.Dial()
	if err != nil {
		return nil, err
	}
	return roomy(pipe), nil
}
