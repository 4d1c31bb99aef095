package faultproxy

import (
	"bufio"
	"io"
	"net"
	"time"
)

// returnReplies passes the server's replies on to the client, as long as there
// is one, and does to them what the rules say.
func (l *link) returnReplies(upstream net.Conn) {
	defer close(l.replied)
	// The server has closed. The client must see that too, after the last reply.
	defer l.p.gate.pass(l.gone, l.closeClient)
	r := bufio.NewReader(upstream)
	muted := false
	for {
		reply, err := readReply(r)
		if err != nil {
			l.complain("the server", err)
			return
		}
		x := l.waiting.take(reply)
		if x != nil {
			x.markAnswered()
			reply = l.act(x.action, reply)
			muted = muted || x.action.kind == swallowReplySilently
		}
		leaves := x != nil && x.leavesOrder()
		switch {
		case muted:
		case leaves:
			l.toListener(reply)
		default:
			l.toClient(reply)
		}
		if leaves {
			l.copyRest(r, muted)
			return
		}
	}
}

// act applies an action to a reply, and returns what is left of the reply.
func (l *link) act(action Action, reply []byte) []byte {
	switch action.kind {
	case swallowReply:
		l.p.gate.pass(l.gone, l.closeClient)
	case delayReply:
		timer := time.NewTimer(action.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
		}
	case rewriteReply:
		return action.rewrite(reply)
	}
	return reply
}

// toClient writes to the client. If the client has gone, the goroutine that reads requests notices.
func (l *link) toClient(b []byte) {
	l.p.gate.pass(l.gone, func() { _, _ = l.client.Write(b) })
}

// copyRest passes on everything that the server sends from here on, unread.
func (l *link) copyRest(r io.Reader, muted bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && !muted {
			l.toListener(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// toListener is toClient, in two parts if the test asked for a tear.
func (l *link) toListener(b []byte) {
	if at, pause := l.p.tears(len(b)); pause > 0 {
		l.toClient(b[:at])
		b = b[at:]
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
		}
	}
	l.toClient(b)
}
