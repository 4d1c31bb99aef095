// Command http shows the middleware httplock. It serializes the requests for one order, over two
// servers and in the order in which they came. Requests for another order pass meanwhile. If the
// line is full, the client gets 429 Too Many Requests with Retry-After. A client that hangs up
// leaves the line. A handler hears of it when its lock is lost.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/integrations/httplock"
)

func main() { stage.Main(play, nil) }

// host is one of the servers.
type host struct {
	name   string
	url    string
	server *http.Server
	locker *fairlock.Locker
	orders *orders
}

// open makes the host listen.
func (h *host) open(ctx context.Context) error {
	byOrder, err := httplock.New(h.locker,
		func(r *http.Request) string { return "order:" + r.PathValue("order") },
		httplock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(mostInLine)}, RetryAfter: 2 * time.Second})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/pay", byOrder(http.HandlerFunc(h.pay)))
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.url = "http://" + listener.Addr().String()
	go func() { _ = h.server.Serve(listener) }() // until close
	return nil
}

func (h *host) close() {
	_ = h.server.Close() // the program ends
	_ = h.locker.Close()
}

// pay is the handler. It never runs twice at the same time for one order.
func (h *host) pay(w http.ResponseWriter, r *http.Request) {
	order, token := r.PathValue("order"), httplock.Token(r.Context())
	h.orders.begin(order, token)
	defer h.orders.end(order)
	takes, err := time.ParseDuration(r.FormValue("takes"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(takes):
		// A real handler would write the token down with the payment, so that its store can refuse
		// a write that comes too late.
		fmt.Fprintf(w, "paid, with token %d", token)
	case <-r.Context().Done():
		http.Error(w, fmt.Sprintf("not paid: %v", context.Cause(r.Context())), http.StatusServiceUnavailable)
	}
}

// orders notes who works on which order.
type orders struct {
	mu       sync.Mutex // guards all of it
	busy     map[string]bool
	token    map[string]int64
	overlaps int
	stale    int // tokens that were not larger than the token before
}

func (o *orders) begin(order string, token int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy[order] {
		o.overlaps++
	}
	if token <= o.token[order] {
		o.stale++
	}
	o.busy[order], o.token[order] = true, token
}

func (o *orders) end(order string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy[order] = false
}

func (o *orders) seen() (overlaps, stale int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.overlaps, o.stale
}
