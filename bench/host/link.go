package host

import (
	"io"
	"net"
	"sync"
	"time"
)

// Link is a TCP proxy that delays every byte, in each direction, as a long wire does.
type Link struct {
	listener net.Listener
	server   string
	delay    time.Duration

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// NewLink returns a link to the server with the given delay in each direction.
func NewLink(server string, delay time.Duration) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening takes no time
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, server: server, delay: delay}
	go l.accept()
	return l, nil
}

// Addr returns the address that the link listens on.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Close cuts the wire.
func (l *Link) Close() {
	_ = l.listener.Close() // ends accept
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close() // ends carry
	}
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.server) //nolint:noctx // the server is on this machine
		if err != nil {
			_ = near.Close() // so that the client notices
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, near, far)
		l.mu.Unlock()
		go l.carry(near, far)
		go l.carry(far, near)
	}
}

// parcel is the bytes of one read, with the time when they arrive.
type parcel struct {
	bytes []byte
	due   time.Time
}

// carry reads on while earlier bytes are still under way: a wire delays bytes, but does not block.
func (l *Link) carry(from, to net.Conn) {
	wire := make(chan parcel, 4096)
	go func() {
		defer to.Close()
		for p := range wire {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // ends the reader
			}
		}
	}()
	defer close(wire)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			wire <- parcel{bytes: append([]byte(nil), buffer[:n]...), due: time.Now().Add(l.delay)}
		}
		if err != nil {
			if err != io.EOF { //nolint:errorlint // as the reader returns it
				_ = to.Close()
			}
			return
		}
	}
}
