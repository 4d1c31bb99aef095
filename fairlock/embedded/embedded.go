// Package embedded starts a Redis-compatible server inside the process: for trying the library and
// for unit tests, never for more than one machine. The server is miniredis with expiries that
// follow the clock. For tests of code that takes locks there is more in package locktest.
package embedded

import (
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Server is a running embedded server. It keeps everything in memory and forgets it when closed.
type Server struct {
	mini  *miniredis.Miniredis
	conns *server.Server // what mini serves connections with
	addr  string
}

// Start starts a server on a free loopback port. The caller must Close it.
func Start() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.Start(); err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	return &Server{mini, mini.Server(), mini.Addr()}, nil
}

// New starts a server that listens nowhere: it serves the connections given to ServeConn. In fake
// time (testing/synctest), where sockets do not work, it is the one to use. The caller must Close
// it.
func New() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	first, err := mini.Dial() // starts it without a listener
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	_ = first.Close()
	return &Server{mini, mini.Server(), mini.Addr()}, nil
}

// Addr returns the server's host:port, or "" if it listens nowhere.
func (s *Server) Addr() string { return s.addr }

// ServeConn serves a connection in the background, until either side closes it. It must not be
// called when Close has been.
func (s *Server) ServeConn(conn net.Conn) { s.conns.ServeConn(conn) }

// Close stops the server and ends its connections.
func (s *Server) Close() { s.mini.Close() }
