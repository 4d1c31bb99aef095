package locktest

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock/embedded"
)

// Server is the embedded server of one test. It listens nowhere: its clients come from Client.
type Server struct {
	network *network

	mu      sync.Mutex // guards clients
	clients []*redis.Client
}

// enough is a pool size for all calls that ask at once. In fake time no call may wait for a
// connection: go-redis would pass its timer on to calls of another test.
const enough = 1000

func start(tb testing.TB) *Server {
	tb.Helper()
	server, err := embedded.New()
	if err != nil {
		tb.Fatalf("locktest: %v", err)
	}
	return &Server{network: &network{server: server, conns: make(map[*conn]struct{})}}
}

// Client returns one more client of the server, for code that makes its Locker itself, or to look
// at or change what the server has. It is closed with the test.
func (s *Server) Client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:0", // never dialled, but parsed: a name would be resolved
		Dialer: s.network.dial, PoolSize: enough,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, rdb)
	return rdb
}

// Pause has the server stand still until Resume, as one that is overloaded or behind a broken
// network. Connections stay, and nothing is answered. What is sent meanwhile is executed at last,
// even for clients that have given up by then.
func (s *Server) Pause() { s.network.turn(paused) }

// Stop has the server be gone until Resume, as one that restarts. Its connections end, and new ones
// are refused. It keeps its data; what was to expire meanwhile expires.
func (s *Server) Stop() { s.network.turn(stopped) }

// Resume ends Pause and Stop.
func (s *Server) Resume() { s.network.turn(serving) }

// end ends the server and its clients.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rdb := range s.clients {
		_ = rdb.Close() // the test may have closed it
	}
	s.network.end()
}
