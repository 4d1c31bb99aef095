package pipes

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// roomyConn is a connection to the embedded server with a buffer for what is written, as a socket
// has. A pipe has none: if both sides write, neither reads, and both wait for a timeout.
type roomyConn struct {
	net.Conn
	written chan []byte
	closed  func()
	gone    <-chan struct{}
}

// roomy is the client's end of a pipe, with room for what is written.
func roomy(pipe net.Conn) net.Conn {
	gone := make(chan struct{})
	c := &roomyConn{pipe, make(chan []byte, 64), sync.OnceFunc(func() { close(gone) }), gone}
	go func() {
		for {
			select {
			case p := <-c.written:
				_, _ = pipe.Write(p)
			case <-gone:
				return
			}
		}
	}()
	return c
}

func (c *roomyConn) Write(p []byte) (int, error) {
	select {
	case c.written <- bytes.Clone(p):
		return len(p), nil
	case <-c.gone:
		return 0, net.ErrClosed
	}
}

func (c *roomyConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *roomyConn) SetWriteDeadline(time.Time) error { return nil }
