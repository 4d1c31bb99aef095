package simulate

import (
	"time"

	"github.com/fairlock/locks/test/simulate/stage"
)

// conn is a client's end of a connection, and what the server and the network know of that
// connection.
type conn struct {
	*stage.Conn
	link *link

	// Guarded by World.mu.
	stage.Session
	up, down time.Time // when the last frame in each direction arrives: frames keep their order
	mute     bool      // nothing reaches the client any more
	flying   int       // requests without an answer so far
	left     time.Time // when its client closed it
	torn     bool      // the first part of a frame has arrived, and the second has not
	behind   []byte    // frames that came behind the torn one
}

func newConn(l *link) *conn {
	c := &conn{link: l, Session: stage.Session{Peer: stage.NewPeer()}}
	c.Conn = stage.NewConn(func(args []string) { l.send(c, args) }, func() { l.closed(c) })
	return c
}

// hand delivers a whole frame. A frame that comes behind a torn one has to wait.
func (c *conn) hand(frame []byte) {
	if c.torn {
		c.behind = append(c.behind, frame...)
		return
	}
	c.Arrive(frame)
}

// reads reports whether the client reads what arrives now.
func (c *conn) reads() bool { return !c.torn && !c.IsClosed() && !c.Expired() }

// fail breaks the connection, as the client sees it.
func (c *conn) fail(err error) {
	c.link.w.history.Note(c.link.owner.name, "has a connection broken: %v", err)
	c.Fail(err)
}
