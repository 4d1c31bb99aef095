package simulate

import (
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// redisServer is the one server of a run. World.mu guards all fields.
type redisServer struct {
	*stage.Server[*conn]
	w      *World
	offset time.Duration // of the server's clock from ours
	down   bool
	mood   string // the error with which the server refuses requests; "": it does not

	forbids bool // the server refuses whatever touches the keys of the damaged lock
}

// message is a published message on its way to a subscriber.
type message = stage.Message[*conn]

func newServer(w *World) *redisServer {
	s := &redisServer{w: w}
	s.Server = stage.NewServer[*conn](s.now)
	s.Alter = w.plan.Break.Script
	return s
}

// now is what the server's clock shows.
func (s *redisServer) now() time.Time { return time.Now().Add(s.offset).UTC() }

// heard reports whether a channel has a subscriber.
func (s *redisServer) heard(channel string) bool { return len(s.Subscribers(channel)) > 0 }

// flush is FLUSHALL.
func (s *redisServer) flush() { s.Mini.FlushAll() }

// restart ends all connections. A server without its data has lost its scripts too.
func (s *redisServer) restart(withData bool) {
	if !withData {
		s.flush()
	}
	s.Restart(withData)
}

// step sets the clock.
func (s *redisServer) step(by time.Duration) { s.Step(by, func() { s.offset += by }) }
