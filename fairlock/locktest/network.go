package locktest

import (
	"context"
	"net"
	"sync"
	"syscall"

	"github.com/fairlock/locks/fairlock/embedded"
)

// network leads from the clients to the embedded server, without sockets, so that it works in fake
// time as well.
type network struct {
	server *embedded.Server
	dials  sync.WaitGroup // of which the server has yet to be told

	mu    sync.Mutex // guards what follows, and all of the connections
	state state
	conns map[*conn]struct{} // the server's ends
}

// state is how the server does.
type state int

const (
	serving state = iota
	paused        // nothing arrives
	stopped       // there are no connections
	ended         // for good
)

func (s state) String() string { return [...]string{"serving", "paused", "stopped", "ended"}[s] }

// dial is a Dialer for clients.
func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	if n.state >= stopped {
		n.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: memory{}, Err: syscall.ECONNREFUSED}
	}
	client, server := n.pipe()
	n.conns[server] = struct{}{}
	n.dials.Add(1)
	n.mu.Unlock()
	defer n.dials.Done()
	n.server.ServeConn(server)
	return client, nil
}

// turn changes the state. Where there are no connections, those that there were end.
func (n *network) turn(to state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == ended {
		return
	}
	n.state = to
	for c := range n.conns {
		if to >= stopped {
			c.close()
		}
		c.in.wake()
		c.out.wake()
	}
	if to >= stopped {
		clear(n.conns)
	}
}

func (n *network) now() state {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// end stops the server for good.
func (n *network) end() {
	n.turn(ended)
	n.dials.Wait()
	n.server.Close()
}
