package locktest

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// conn is one end of a connection within the process. Its writer never waits for a reader, as
// little as that of a socket does; on a net.Pipe, two sides that both write wait for each other.
type conn struct {
	network  *network
	in, out  *stream
	deadline time.Time // for reading; zero: none. Guarded by network.mu
}

// stream is one direction of a connection. All of it is guarded by network.mu.
type stream struct {
	bytes  []byte        // written and not yet read
	ended  bool          // its writer was closed
	unread bool          // its reader was closed
	news   chan struct{} // closed and made anew at every change
}

// pipe returns the two ends of a new connection.
func (n *network) pipe() (client, server *conn) {
	to, from := &stream{news: make(chan struct{})}, &stream{news: make(chan struct{})}
	return &conn{network: n, in: from, out: to}, &conn{network: n, in: to, out: from}
}

// wake makes the reader look again. network.mu must be held.
func (s *stream) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// Read waits for bytes, for the end of the connection or for the deadline. While the server is
// paused, nothing arrives.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, wait, err := c.take(p)
		if wait == nil {
			return n, err
		}
		wait()
	}
}

// take reads what is there. If nothing is, it returns a function that waits for a change.
func (c *conn) take(p []byte) (n int, wait func(), err error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	arrives := c.network.state != paused
	switch {
	case c.in.unread:
		return 0, nil, net.ErrClosed
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return 0, nil, os.ErrDeadlineExceeded
	case arrives && len(c.in.bytes) > 0:
		n = copy(p, c.in.bytes)
		c.in.bytes = c.in.bytes[n:]
		return n, nil, nil
	case arrives && c.in.ended:
		return 0, nil, io.EOF
	}
	news, deadline := c.in.news, c.deadline
	return 0, func() {
		if deadline.IsZero() {
			<-news
			return
		}
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case <-news:
		case <-timer.C:
		}
	}, nil
}

// Write never waits.
func (c *conn) Write(p []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.out.ended || c.out.unread {
		return 0, net.ErrClosed
	}
	c.out.bytes = append(c.out.bytes, p...)
	c.out.wake()
	return len(p), nil
}

// Close ends the connection. What was written before still arrives.
func (c *conn) Close() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.close()
	delete(c.network.conns, c)
	return nil
}

// close is Close with network.mu held.
func (c *conn) close() {
	c.in.unread, c.out.ended = true, true
	c.in.bytes = nil
	c.in.wake()
	c.out.wake()
}

// SetReadDeadline also ends a Read that waits.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.deadline = t
	c.in.wake()
	return nil
}

// SetDeadline is SetReadDeadline, because Write never waits.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing, because Write never waits.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr says that there is no socket.
func (*conn) LocalAddr() net.Addr { return memory{} }

// RemoteAddr says that there is no socket.
func (*conn) RemoteAddr() net.Addr { return memory{} }

// SyscallConn fails if the other side has closed the connection. That is how go-redis sees, as with
// a socket, that an idle connection is dead before it sends a request on it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.network.state != paused && c.in.ended {
		return nil, io.EOF
	}
	return alive{}, nil
}

// alive is a socket on which nothing is to be read.
type alive struct{}

func (alive) Control(func(fd uintptr)) error    { return nil }
func (alive) Read(func(fd uintptr) bool) error  { return nil }
func (alive) Write(func(fd uintptr) bool) error { return nil }

type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }
