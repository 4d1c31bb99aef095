package redistest

import (
	"errors"
	"time"
)

const controlTimeout = 10 * time.Second

// Pause freezes the server (SIGSTOP) and returns when every thread of it has
// stopped. The kernel still accepts connections and data for it: to a client
// this is a server that has gone silent. Use it for "Redis hangs".
func (s *Server) Pause() {
	s.tb.Helper()
	p := s.process()
	if err := p.stop(); err != nil {
		s.tb.Fatalf("pause redis-server: %v", err)
	}
	for deadline := time.Now().Add(controlTimeout); !p.stopped(); time.Sleep(time.Millisecond) {
		if p.ended() || time.Now().After(deadline) {
			s.tb.Fatal("pause redis-server: it did not stop")
		}
	}
}

// Resume lets a paused server go on (SIGCONT). The server first executes what clients have sent
// meanwhile, even for clients that have given up since.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.process().resume(); err != nil {
		s.tb.Fatalf("resume redis-server: %v", err)
	}
}

// Kill ends the server without a farewell (SIGKILL), paused or not, and
// returns when it is gone. All its data is lost unless args asked for
// persistence. Killing a dead server does nothing.
func (s *Server) Kill() {
	s.process().kill()
}

// Restart starts a killed server again with the same port and args and returns
// when it answers PING. Use it after [Server.Kill] for "Redis came back, and
// empty".
func (s *Server) Restart() {
	s.tb.Helper()
	p := s.process()
	if !p.ended() {
		s.tb.Fatal("restart redis-server: it is still running, Kill it first")
	}
	for deadline := time.Now().Add(controlTimeout); ; time.Sleep(pollInterval) {
		err := s.run(p.log)
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			s.tb.Fatalf("restart redis-server: %v", err)
		}
	}
}
