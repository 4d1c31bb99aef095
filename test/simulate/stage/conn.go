package stage

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Conn is a client's end of a connection. What is written leaves as whole requests.
type Conn struct {
	sends func(args []string)
	left  func()

	mu      sync.Mutex // guards what follows
	in      []byte     // arrived, not yet read
	frozen  bool       // its process is paused: nothing is read, and deadlines do not pass
	err     error      // of a broken connection, after all is read
	closed  bool
	readBy  time.Time
	changed chan struct{} // holds one: look again

	out []byte // written, not yet a whole request
}

// NewConn returns a connection that calls sends for each request, and left when its client closes
// it.
func NewConn(sends func(args []string), left func()) *Conn {
	return &Conn{sends: sends, left: left, changed: make(chan struct{}, 1)}
}

// ErrReset is what a client sees of a connection that breaks.
var ErrReset = errors.New("connection reset by peer")

// Read reads what has arrived, until the deadline.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		frozen, readBy := c.frozen, c.readBy
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, net.ErrClosed
		case frozen:
		case c.expired():
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			c.mu.Unlock()
			return n, nil
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			return 0, err
		}
		c.mu.Unlock()
		if frozen || readBy.IsZero() {
			<-c.changed
			continue
		}
		timer := time.NewTimer(time.Until(readBy))
		select {
		case <-c.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Write sends each request that is whole.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	err := c.err
	if c.closed {
		err = net.ErrClosed
	}
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	c.out = append(c.out, p...)
	for {
		args, n := Request(c.out)
		if n == 0 {
			return len(p), nil
		}
		c.out = slices.Delete(c.out, 0, n)
		c.sends(args)
	}
}

// IsClosed reports whether the client has closed its end.
func (c *Conn) IsClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Expired reports whether a read would time out, whatever has arrived.
func (c *Conn) Expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expired()
}

// expired reports whether the deadline has passed. mu must be held.
func (c *Conn) expired() bool { return !c.readBy.IsZero() && !time.Now().Before(c.readBy) }

// change changes the state that Read looks at.
func (c *Conn) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Arrive hands bytes to the reader.
func (c *Conn) Arrive(b []byte) { c.change(func() { c.in = append(c.in, b...) }) }

// Freeze has a paused process's end read nothing, until it thaws.
func (c *Conn) Freeze(frozen bool) { c.change(func() { c.frozen = frozen }) }

// Fail breaks the connection, as the client sees it.
func (c *Conn) Fail(err error) { c.change(func() { c.err = err }) }

// Close closes the client's end; the server learns that later.
func (c *Conn) Close() error {
	first := false
	c.change(func() { first, c.closed = !c.closed, true })
	if first {
		c.left()
	}
	return nil
}

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.change(func() { c.readBy = t })
	return nil
}

// SetDeadline bounds reads: writes take no time.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writes take no time.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr is no address.
func (c *Conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is no address.
func (c *Conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
