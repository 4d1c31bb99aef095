package quorum

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// named is a Locker that knows the nodes as a:1, b:1 and c:1. These lead to the addresses.
func (w *world) named(addrs ...string) *Locker {
	w.Helper()
	var nodes []redis.UniversalClient
	for i, name := range []string{"a:1", "b:1", "c:1"} {
		rdb := redis.NewClient(&redis.Options{
			Addr: name, MaxRetries: -1, DialerRetries: 1,
			Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addrs[i])
			},
		})
		w.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes, WithSet("named"))
	w.Cleanup(func() { _ = l.Close() })
	return l
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
	l := w.named(w.addrs[0], w.addrs[1], w.addrs[1])
	for range 2 {
		_, err := l.TryLock(w.Context(), "x")
		w.saysTwice("TryLock", err)
		_, err = l.Inspect(w.Context(), "x")
		w.saysTwice("Inspect", err)
		w.saysTwice("ForceUnlock", l.ForceUnlock(w.Context(), "x"))
		w.saysTwice("Init", l.Init(w.Context()))
	}
	w.untouched()
	mended := w.named(w.addrs...)
	w.must(mended.Init(w.Context()))
	w.unlock(w.has(mended, "x"))
}
