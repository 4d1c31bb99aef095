// Package embedded starts a Redis-compatible server inside the process: for trying the library and
// for unit tests, never for more than one machine. The server is miniredis with expiries that
// follow the clock.
package embedded

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Server is a running embedded server. It keeps everything in memory and forgets it when closed.
type Server struct{ mini *miniredis.Miniredis }

// Start starts a server on a free loopback port. The caller must Close it.
func Start() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.Start(); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	return &Server{mini}, nil
}

// Addr returns the server's host:port.
func (s *Server) Addr() string { return s.mini.Addr() }

// Close stops the server and ends its connections.
func (s *Server) Close() { s.mini.Close() }
