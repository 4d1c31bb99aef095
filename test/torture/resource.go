package torture

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// resource is what the locks protect: a counter for each lock. It lives in the test's process,
// which nobody kills here. The resource refuses whoever shows a smaller token than it has seen for
// the lock, for a read or a write. A worker reads the counter and writes one more. If two workers
// do so at the same time, an accepted write is overwritten, and the counter ends too low.
type resource struct {
	tb       testing.TB
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex // guards all below
	counters map[string]*counter
	written  []written // accepted, in order
	clients  map[net.Conn]struct{}
	closed   bool
}

// counter is the counter of one lock.
type counter struct {
	value    int
	largest  int64 // token seen
	accepted int   // writes
	refused  int   // writes with smaller tokens
}

// written is an accepted write.
type written struct {
	lock, process string
	token         int64
}

func newResource(tb testing.TB) *resource {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &resource{
		tb: tb, listener: listener,
		counters: make(map[string]*counter), clients: make(map[net.Conn]struct{}),
	}
	r.running.Go(r.accept)
	tb.Cleanup(r.close)
	return r
}

func (r *resource) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				r.tb.Errorf("resource: %v", err)
			}
			return
		}
		r.mu.Lock()
		r.clients[conn] = struct{}{}
		if r.closed {
			_ = conn.Close()
		}
		r.mu.Unlock()
		r.running.Go(func() { r.serve(conn) })
	}
}

// request is a line that a worker sends: what it wants, on which lock, with which token, its name,
// and the value to write.
type request struct {
	Verb, Lock, Process string
	Token               int64
	Value               int
}

const requestForm = "%s %s %s %d %d\n"

// serve answers each request with the counter's value, or with -1 if it refuses the request.
func (r *resource) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil { // the worker was killed
			break
		}
		var q request
		if _, err := fmt.Sscanf(line, requestForm, &q.Verb, &q.Lock, &q.Process, &q.Token, &q.Value); err != nil {
			r.tb.Errorf("resource: %q: %v", strings.TrimSpace(line), err)
			break
		}
		if _, err := fmt.Fprintln(conn, r.do(q)); err != nil {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, conn)
}

func (r *resource) do(q request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counters[q.Lock]
	if c == nil {
		c = &counter{}
		r.counters[q.Lock] = c
	}
	switch {
	case q.Token < c.largest && q.Verb != "read":
		c.refused++
		return -1
	case q.Token < c.largest:
		return -1
	}
	c.largest = q.Token
	switch q.Verb {
	case "write":
		c.value = q.Value
	case "add": // by one of several holders that share an owner, and so do not exclude each other
		c.value++
	default:
		return c.value
	}
	c.accepted++
	r.written = append(r.written, written{q.Lock, q.Process, q.Token})
	return c.value
}

func (r *resource) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.clients {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// totals adds up all locks. wrong lists the counters that do not end at their number of accepted
// writes.
func (r *resource) totals() (sum counter, wrong []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for lock, c := range r.counters {
		sum.value += c.value
		sum.accepted += c.accepted
		sum.refused += c.refused
		if c.value != c.accepted {
			wrong = append(wrong, fmt.Sprintf("lock %s: the counter is %d after %d accepted writes", lock, c.value, c.accepted))
		}
	}
	return sum, wrong
}

// uncounted lists where the resource and the workers disagree on the number of accepted writes. A
// killed worker may not have written down the answers to the last writes that it sent: one for each
// of its goroutines.
func (r *resource) uncounted(h *history, goroutines int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var wrong []string
	accepted := make(map[string]int)
	for _, w := range r.written {
		accepted[w.process]++
	}
	for process, l := range h.lives {
		missing := accepted[process] - h.acks[process]
		if missing < 0 || missing > 0 && l.Killed == 0 || missing > goroutines {
			wrong = append(wrong, fmt.Sprintf("%s: %d writes accepted, %d answers", process, accepted[process], h.acks[process]))
		}
	}
	return wrong
}

// stale lists the writes that were accepted after a write with a larger token.
func stale(all []written) []string {
	var wrong []string
	largest := make(map[string]int64)
	for _, w := range all {
		if w.token < largest[w.lock] {
			wrong = append(wrong, fmt.Sprintf("lock %s: %s wrote with token %d after %d", w.lock, w.process, w.token, largest[w.lock]))
		}
		largest[w.lock] = max(largest[w.lock], w.token)
	}
	return wrong
}

// desk is a worker's connection to the resource, for one goroutine.
type desk struct {
	conn net.Conn
	in   *bufio.Reader
}

func openDesk(addr string) (*desk, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &desk{conn, bufio.NewReader(conn)}, nil
}

// ask returns the counter's value, or false if the token is refused.
func (d *desk) ask(q request) (int, bool, error) {
	if _, err := fmt.Fprintf(d.conn, requestForm, q.Verb, q.Lock, q.Process, q.Token, q.Value); err != nil {
		return 0, false, err
	}
	value := 0
	_, err := fmt.Fscanln(d.in, &value)
	return value, value >= 0, err
}
