package faultproxy

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// queueLength is how many requests of one connection may be queued behind a
	// held one before the proxy stops reading from the client.
	queueLength = 1024
)

// link is one client connection with its upstream connection.
//
// It outlives the client: while the server owes the answer to a request that a
// test waits for, the upstream connection stays.
type link struct {
	p        *Proxy
	client   net.Conn
	requests chan request  // from readRequests to forward; closed by the former
	ended    chan struct{} // closed when forward takes no more requests
	replied  chan struct{} // closed when returnReplies has ended
	gone     chan struct{} // closed when the client's connection is closed
	cut      chan struct{} // closed when what is not forwarded shall be lost
	waiting  queue

	mu       sync.Mutex // guards what follows, and the closing of gone and cut
	upstream net.Conn   // nil until connected
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{
		p:        p,
		client:   client,
		requests: make(chan request, queueLength),
		ended:    make(chan struct{}),
		replied:  make(chan struct{}),
		gone:     make(chan struct{}),
		cut:      make(chan struct{}),
	}
}

// readRequests reads what the client sends, even while nothing is forwarded, so
// that the client's leaving is noticed at once.
func (l *link) readRequests() {
	defer close(l.requests)
	defer l.closeClient()
	r := bufio.NewReader(l.client)
	for {
		raw, args, err := readRequest(r)
		if err != nil {
			l.complain("a client", err)
			return
		}
		l.p.note(args)
		select {
		case l.requests <- request{raw, args}:
		case <-l.ended:
			return
		}
	}
}

// forward connects to the server and sends it the requests, until the client
// has gone and nothing is left to send, or to wait for.
func (l *link) forward() {
	defer l.p.forget(l)
	defer close(l.ended)
	defer l.closeClient()
	if !l.connect() {
		return
	}
	defer l.closeUpstream()
	var owed []*exchange
	for r := range l.requests {
		if isClosed(l.cut) {
			break
		}
		x := l.p.judge(r)
		if !l.send(x) {
			break
		}
		if x.action.needsAnswer() {
			owed = append(owed, x)
		}
	}
	l.finish(owed)
}

func (l *link) connect() bool {
	var upstream net.Conn
	var err error
	dial := func() { upstream, err = net.DialTimeout("tcp", l.p.upstream, dialTimeout) }
	if !l.p.gate.pass(l.cut, dial) || err != nil {
		return false
	}
	l.mu.Lock()
	l.upstream = upstream
	l.mu.Unlock()
	if isClosed(l.p.closed) {
		l.closeUpstream() // the proxy may have looked before upstream was set
	}
	l.p.running.Go(func() { l.returnReplies(upstream) })
	return true
}

// send forwards a request. It returns false if nothing more can be sent.
func (l *link) send(x *exchange) bool {
	giveUp := l.cut
	switch x.action.kind {
	case dropRequest:
		l.p.gate.pass(l.cut, l.closeClient)
		return false
	case holdRequest:
		select {
		case <-x.released:
			giveUp = l.p.closed // a held request survives even a cut
		case <-l.p.closed:
			return false
		}
	}
	var err error
	write := func() {
		l.waiting.add(x) // first: the reply may be faster than this goroutine
		_, err = l.upstream.Write(x.raw)
	}
	return l.p.gate.pass(giveUp, write) && err == nil
}

// finish waits until the upstream connection may be closed. By then the client has gone, or has
// read the last reply of a server that closed first. And the server has answered what it owes.
func (l *link) finish(owed []*exchange) {
	select {
	case <-l.gone:
	case <-l.replied:
	}
	for _, x := range owed {
		select {
		case <-x.answered:
		case <-l.replied:
		}
	}
	l.p.gate.pass(l.cut, func() {}) // a close does not get through while frozen
}

// complain fails the test for bytes that this package cannot read, because from then on the test
// would prove nothing. Connections may break as they like.
func (l *link) complain(who string, err error) {
	if errors.Is(err, errProtocol) {
		l.p.tb.Errorf("faultproxy: from %s: %v", who, err)
	}
}

func (l *link) closeClient() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.gone) {
		close(l.gone)
		_ = l.client.Close()
	}
}

func (l *link) closeUpstream() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.upstream != nil {
		_ = l.upstream.Close()
	}
}

// cutOff resets the client's connection and lets everything be lost that is
// not forwarded and not held.
func (l *link) cutOff() {
	if tcp, ok := l.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // makes Close send a reset; fails on a closed one
	}
	l.closeClient()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.cut) {
		close(l.cut)
	}
}

// closeHalf sends FIN to one side. A connection that is already closed, or not yet made, has no
// half to close.
func (l *link) closeHalf(half Half) {
	l.mu.Lock()
	defer l.mu.Unlock()
	side := l.client
	if half == ToServer {
		side = l.upstream
	}
	if tcp, ok := side.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
