package simulate

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// conn is a client's end of a connection, and what the server and the network know of that
// connection.
type conn struct {
	link *link

	// Guarded by World.mu.
	peer     peer
	channels int       // how many channels are subscribed
	up, down time.Time // when the last frame in each direction arrives: frames keep their order
	mute     bool      // nothing reaches the client any more
	gone     bool      // the server has closed its end, or noticed that the client's is closed
	flying   int       // requests without an answer so far
	left     time.Time // when its client closed it
	torn     bool      // the first part of a frame has arrived, and the second has not
	behind   []byte    // frames that came behind the torn one

	mu      sync.Mutex // guards what follows
	in      []byte     // arrived, not yet read
	frozen  bool       // its process is paused: nothing is read, and deadlines do not pass
	err     error      // of a broken connection, after all is read
	closed  bool
	readBy  time.Time
	changed chan struct{} // holds one: look again

	out []byte // written, not yet a whole request
}

var errReset = errors.New("connection reset by peer")

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		frozen, readBy := c.frozen, c.readBy
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, net.ErrClosed
		case frozen:
		case !readBy.IsZero() && !time.Now().Before(readBy):
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

func (c *conn) Write(p []byte) (int, error) {
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
		args, n := request(c.out)
		if n == 0 {
			return len(p), nil
		}
		c.out = slices.Delete(c.out, 0, n)
		c.link.send(c, args)
	}
}

// isClosed reports whether the client has closed its end.
func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// change changes the state that Read looks at.
func (c *conn) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// arrive hands bytes to the reader.
func (c *conn) arrive(b []byte) { c.change(func() { c.in = append(c.in, b...) }) }

// hand delivers a whole frame. A frame that comes behind a torn one has to wait.
func (c *conn) hand(frame []byte) {
	if c.torn {
		c.behind = append(c.behind, frame...)
		return
	}
	c.arrive(frame)
}

// fail breaks the connection, as the client sees it.
func (c *conn) fail(err error) {
	c.link.w.history.note(c.link.owner.name, "has a connection broken: %v", err)
	c.change(func() { c.err = err })
}

// Close closes the client's end; the server learns that later.
func (c *conn) Close() error {
	first := false
	c.change(func() { first, c.closed = !c.closed, true })
	if first {
		c.link.closed(c)
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.change(func() { c.readBy = t })
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil } // writes take no time
func (c *conn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *conn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
