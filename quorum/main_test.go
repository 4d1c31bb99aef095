package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(workers.Dials)) }

const patience = 20 * time.Second

// world is the nodes of a quorum, and Lockers on them that end with the test.
type world struct {
	*testing.T
	addrs   []string
	servers []*redistest.Server // nil: the nodes are embedded
	dirs    []string            // of the servers' data
	direct  []*redis.Client
}

// onBoth runs a test on three embedded nodes and on three real ones.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		w := &world{T: t}
		for range 3 {
			w.addrs = append(w.addrs, miniredis.RunT(t).Addr())
		}
		slices.Sort(w.addrs)
		w.begin()
		test(w)
	})
	t.Run("real", func(t *testing.T) { test(realNodes(t, 3)) })
}

// realNodes are n servers, with these arguments. They are in the order of their addresses, as a
// Locker counts nodes whose set has no name.
func realNodes(t *testing.T, n int, args ...string) *world {
	t.Helper()
	w := &world{T: t}
	dirs := make(map[*redistest.Server]string)
	for range n {
		dir := t.TempDir()
		s := redistest.Start(t, append([]string{"--dir", dir}, args...)...)
		w.servers, dirs[s] = append(w.servers, s), dir
	}
	slices.SortFunc(w.servers, func(a, b *redistest.Server) int { return cmp.Compare(a.Addr(), b.Addr()) })
	for _, s := range w.servers {
		w.addrs, w.dirs = append(w.addrs, s.Addr()), append(w.dirs, dirs[s])
	}
	w.begin()
	return w
}

func (w *world) begin() {
	w.Helper()
	for _, addr := range w.addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		w.Cleanup(func() { _ = rdb.Close() })
		w.direct = append(w.direct, rdb)
	}
	w.must(w.locker().Init(w.Context()))
}

// locker is a Locker with clients of its own.
func (w *world) locker(options ...Option) *Locker {
	w.Helper()
	return w.hooked(nil, false, options...)
}

// hooked is a Locker with clients of its own, which may have a hook and obey deadlines.
func (w *world) hooked(hook redis.Hook, obeys bool, options ...Option) *Locker {
	w.Helper()
	var nodes []redis.UniversalClient
	for _, addr := range w.addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: obeys})
		if hook != nil {
			rdb.AddHook(hook)
		}
		nodes = append(nodes, rdb)
	}
	l := New(nodes, options...)
	w.Cleanup(func() {
		_ = l.Close()
		for _, rdb := range nodes {
			_ = rdb.Close()
		}
	})
	return l
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("%v, want %v", err, want)
	}
}

// has is a lock that is to be had soon.
func (w *world) has(l *Locker, name string, options ...LockOption) *Lease {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	lease, err := l.Lock(ctx, name, options...)
	if err != nil {
		w.Fatalf("%v\n%s", err, w.dump())
	}
	return lease
}

func (w *world) unlock(lease *Lease) {
	w.Helper()
	w.must(lease.Unlock(context.Background()))
}

// outcome is what came of a call.
type outcome struct {
	lease *Lease
	err   error
}

// asks calls Lock in a goroutine.
func (w *world) asks(ctx context.Context, l *Locker, name string, options ...LockOption) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		lease, err := l.Lock(ctx, name, options...)
		done <- outcome{lease, err}
	}()
	return done
}

// queues is asks, and returns when the call is in line.
func (w *world) queues(l *Locker, name string, options ...LockOption) <-chan outcome {
	w.Helper()
	queued := make(chan struct{})
	done := w.asks(w.Context(), l, name, append(options, OnQueued(func(int) { close(queued) }))...)
	select {
	case <-queued:
	case <-time.After(patience):
		w.Fatalf("a call does not wait:\n%s", w.dump())
	}
	return done
}

// refused fails unless somebody else has the lock. If the machine, or a node, stood still for as
// long as nobody waits for a node, it tries again once all are there.
func (w *world) refused(ctx context.Context, l *Locker) {
	w.Helper()
	for {
		began := time.Now()
		_, err := l.TryLock(ctx, "x")
		if !errors.Is(err, ErrUnreachable) || time.Since(began) < silence {
			w.is(err, ErrHeld)
			return
		}
		w.until("all nodes are there", func() bool { return !slices.ContainsFunc(l.nodes, (*node).away) })
	}
}

// reached is what came of a call that is made again while the error is that nodes are out of reach:
// on a busy machine an answer may take longer than anybody waits for a node.
func (w *world) reached(call func() error) (err error) {
	w.Helper()
	w.until("the nodes answer in time", func() bool {
		err = call()
		return !errors.Is(err, ErrUnreachable) && !errors.Is(err, errSilent)
	})
	return err
}

// looks is a look at x in which no node was silent: such a node shows nothing, and counts as having
// each waiter.
func (w *world) looks(l *Locker) (s *State) {
	w.Helper()
	silent := func(n NodeView) bool { return errors.Is(n.Err, errSilent) }
	w.must(w.reached(func() (err error) {
		s, err = l.Inspect(w.Context(), "x")
		if err == nil && slices.ContainsFunc(s.Nodes, silent) {
			err = errSilent
		}
		return err
	}))
	return s
}

// lists is the names of the locks that are listed, each with a space after it.
func (w *world) lists(ctx context.Context, l *Locker) (names string) {
	w.Helper()
	w.must(w.reached(func() error {
		names = ""
		for s, err := range l.List(ctx) {
			if err != nil {
				return err
			}
			names += s.Name + " "
		}
		return nil
	}))
	return names
}

// gets is the Lease of a call that has waited.
func (w *world) gets(done <-chan outcome) *Lease {
	w.Helper()
	o := w.ends(done)
	w.must(o.err)
	return o.lease
}

func (w *world) ends(done <-chan outcome) outcome {
	w.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(patience):
		w.Fatalf("a call does not end:\n%s", w.dump())
		return outcome{}
	}
}

func (w *world) until(what string, holds func() bool) {
	w.Helper()
	if !poll.Until(patience, holds) {
		w.Fatalf("waited in vain for: %s\n%s", what, w.dump())
	}
}

// nothing fails if anything of a lock stays at a node, but what ends by itself.
func (w *world) nothing() {
	w.Helper()
	w.until("nothing is left", func() bool {
		for _, rdb := range w.direct {
			keys := rdb.Keys(context.Background(), "*").Val()
			if slices.ContainsFunc(keys, func(key string) bool {
				if strings.Contains(key, ":gone:") || strings.Contains(key, ":token:") || strings.HasSuffix(key, ":node") {
					return false
				}
				waiters := rdb.ZRange(context.Background(), key, 0, -1).Val() // none: it has ended by now
				return !strings.Contains(key, ":waiters:") || len(waiters) > 0 && waiters[0][0] != '~'
			}) {
				return false
			}
		}
		return true
	})
}

func (w *world) dump() (text string) {
	for i, rdb := range w.direct {
		text += fmt.Sprintf("node %d:\n%s", i+1, redistest.Dump(rdb))
	}
	return text
}
