package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// wire is a bare connection, for tests that must know what is on one
// connection and in which order.
type wire struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// dialWire connects. The connection is closed after the proxy: cleanups of a
// test run in reverse, so that the proxy has to end with a client connected.
func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t, conn, bufio.NewReader(conn)}
}

func (w *wire) send(args ...string) {
	w.t.Helper()
	_, err := w.conn.Write(encode(args...))
	must(w.t, err)
}

// wants reads one reply.
func (w *wire) wants(want string) {
	w.t.Helper()
	got, err := readReply(w.r)
	if err != nil || string(got) != want {
		w.t.Fatalf("reply %q, %v, want %q", got, err, want)
	}
}

// wantsEnd reads the end of the connection.
func (w *wire) wantsEnd() {
	w.t.Helper()
	if got, err := readReply(w.r); !isDisconnect(err) {
		w.t.Fatalf("reply %q, %v, want the connection to end", got, err)
	}
}

// wantsSilence reads nothing for a moment from an open connection.
func (w *wire) wantsSilence() {
	w.t.Helper()
	must(w.t, w.conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	if got, err := readReply(w.r); !isTimeout(err) {
		w.t.Fatalf("reply %q, %v, want silence", got, err)
	}
	must(w.t, w.conn.SetReadDeadline(time.Now().Add(patience)))
}

func encode(args ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return []byte(b.String())
}
