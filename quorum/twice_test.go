package quorum

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// names are where addresses lead.
type names struct {
	mu sync.Mutex // guards to
	to map[string]string
}

func (n *names) leads(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to[name] = addr
}

func (n *names) dial(ctx context.Context, network, name string) (net.Conn, error) {
	n.mu.Lock()
	addr := n.to[name]
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// named is a Locker that knows the nodes as a:1, b:1 and c:1.
func (w *world) named() (*Locker, *names) {
	w.Helper()
	all := &names{to: make(map[string]string)}
	var nodes []redis.UniversalClient
	for i, name := range []string{"a:1", "b:1", "c:1"} {
		all.leads(name, w.addrs[i])
		rdb := redis.NewClient(&redis.Options{Addr: name, MaxRetries: -1, DialerRetries: 1, Dialer: all.dial})
		w.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes, WithSet("named"))
	w.Cleanup(func() { _ = l.Close() })
	return l, all
}

// saysTwice fails unless an error says that two addresses lead to one server, and which.
func (w *world) saysTwice(what string, err error) {
	w.Helper()
	_, run, _ := strings.Cut(w.direct[1].Info(w.Context(), "server").Val(), "run_id:")
	run, _, _ = strings.Cut(run, "\r\n")
	if !errors.Is(err, errTwice) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnreachable) {
		w.Errorf("%s says %v", what, err)
		return
	}
	for _, part := range []string{"b:1 and c:1", run} {
		if !strings.Contains(err.Error(), part) || part == "" {
			w.Errorf("%s does not say %q: %v", what, part, err)
		}
	}
}

// A handler of requests, or a leader that stands for election, goes on when somebody has mended it.
func TestTwoAddressesOfOneServerAreRefusedAsNoFaultOfTheCallAndNothingIsWritten(t *testing.T) {
	w := strangers(t)
	l, names := w.named()
	names.leads("c:1", w.addrs[1])
	for range 2 {
		_, err := l.TryLock(w.Context(), "x")
		w.saysTwice("TryLock", err)
		_, err = l.Inspect(w.Context(), "x")
		w.saysTwice("Inspect", err)
		w.saysTwice("ForceUnlock", l.ForceUnlock(w.Context(), "x"))
		w.saysTwice("Init", l.Init(w.Context()))
	}
	w.untouched()
	mended, _ := w.named()
	w.must(mended.Init(w.Context()))
	w.unlock(w.has(mended, "x"))
}
