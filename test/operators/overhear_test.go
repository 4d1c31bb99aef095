package operators

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// eavesdropper overhears the events of locks.
type eavesdropper struct {
	*testing.T
	heard func() (fairlock.Overheard, error, bool)
}

// overhears starts an eavesdropper, and returns when it hears what is published.
func overhears(t *testing.T, ctx context.Context, l fairlock.Interface, names ...string) *eavesdropper {
	t.Helper()
	next, stop := iter.Pull2(l.Overhear(ctx, names...))
	t.Cleanup(stop)
	e := &eavesdropper{t, next}
	e.hears(fairlock.Overheard{Kind: fairlock.Reconnected})
	return e
}

func (e *eavesdropper) hears(want fairlock.Overheard) {
	e.Helper()
	got, err, ok := e.heard()
	if !ok || err != nil || got != want {
		e.Fatalf("heard %+v, %v, %v\nwant  %+v", got, err, ok, want)
	}
}

// endsWith fails unless the eavesdropper has heard everything and ends with why.
func (e *eavesdropper) endsWith(why error) {
	e.Helper()
	if got, err, ok := e.heard(); !ok || !errors.Is(err, why) {
		e.Fatalf("heard %+v, %v, %v", got, err, ok)
	}
	if got, err, ok := e.heard(); ok {
		e.Fatalf("after the end: %+v, %v", got, err)
	}
}

func quietLocker(t *testing.T, s *redistest.Server, options ...fairlock.Option) *fairlock.Locker {
	t.Helper()
	l := fairlock.New(s.Client(t), append(options, fairlock.WithLogger(slog.New(slog.DiscardHandler)))...)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func waitersOf(t *testing.T, l *fairlock.Locker, name string) []fairlock.Waiter {
	t.Helper()
	state, err := l.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return state.Waiters
}

func TestWhoOverhearsHearsOfHandOversEvictionsAndForce(t *testing.T) {
	s := redistest.Start(t)
	prefix := fairlock.WithPrefix("odd*[x]?\\")
	a, b := quietLocker(t, s, prefix), quietLocker(t, s, prefix)
	all := overhears(t, t.Context(), a)
	some := overhears(t, t.Context(), a, "{x}") // another name for x
	both := func(want fairlock.Overheard, name string) {
		t.Helper()
		want.Name = name
		all.hears(want)
		if name == "x" {
			want.Name = "{x}"
			some.hears(want)
		}
	}
	for _, name := range []string{"{tag} of its own", "x"} {
		held, err := a.Lock(t.Context(), name, fairlock.Note("nobody is told"))
		if err != nil {
			t.Fatal(err)
		}
		stuck := world.Queue(b, name, fairlock.Note("stuck"))
		next := world.Queue(b, name, fairlock.Note("next"), fairlock.WithOwner("an owner"))
		line := waitersOf(t, a, name)
		if err := a.Evict(t.Context(), name, line[0].ID); err != nil {
			t.Fatal(err)
		}
		if r := <-stuck; !errors.Is(r.Err, fairlock.ErrEvicted) {
			t.Fatal(r.Err)
		}
		both(fairlock.Overheard{Kind: fairlock.GaveUp, ID: line[0].ID, Owner: line[0].Owner, Note: "stuck"}, name)
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease := (<-next).Lease
		call := fairlock.Overheard{Kind: fairlock.Acquired, ID: line[1].ID, Owner: "an owner", Note: "next", Token: lease.Token()}
		granted := call
		granted.Remaining = 3 * time.Second // a claim
		both(granted, name)
		if err := a.ForceUnlock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		call.Kind = fairlock.Lost
		both(call, name)
	}
}

func TestWhoOverhearsHearsEveryReleaseOfAPlainLock(t *testing.T) {
	s := redistest.Start(t)
	a := reentrant.New(s.Client(t))
	defer a.Close()
	e := overhears(t, t.Context(), a)
	for _, name := range []string{"x", "{x} too"} {
		lease, err := a.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.hears(fairlock.Overheard{Kind: fairlock.Released, Name: name})
	}
}

func TestWhoOverhearsIsToldWhenSomethingMayHaveBeenMissed(t *testing.T) {
	s := redistest.Start(t)
	a := quietLocker(t, s)
	e := overhears(t, t.Context(), a)
	if err := s.Client(t).ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	e.hears(fairlock.Overheard{Kind: fairlock.Reconnected})
}

func TestWhoOverhearsIsToldWhenTheConnectionHadGoneDead(t *testing.T) {
	s := redistest.Start(t)
	proxy := faultproxy.New(t, s.Addr())
	dials := make(chan struct{}, 100)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials <- struct{}{}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	a := fairlock.New(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _ = a.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	e := overhears(t, ctx, a)
	for len(dials) > 0 {
		<-dials
	}
	proxy.Freeze(true) // nothing comes, and nothing says so
	go func() {
		<-dials
		proxy.Freeze(false)
	}()
	e.hears(fairlock.Overheard{Kind: fairlock.Reconnected})
}

func TestOverhearingEndsWhenItsClientIsClosed(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	a := fairlock.New(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _ = a.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	e := overhears(t, ctx, a)
	_ = rdb.Close()
	e.endsWith(redis.ErrClosed)
}

func TestOverhearingEndsAtOnceWithItsContextWhileItConnects(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	a := fairlock.New(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _ = a.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := overhears(t, ctx, a)
	if err := s.Client(t).ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause() // it takes the next connection, and says nothing
	defer s.Resume()
	time.AfterFunc(200*time.Millisecond, cancel)
	began := time.Now()
	for ok := true; ok; { // the first connection may have been made again before the pause
		_, _, ok = e.heard()
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestOverhearingEndsWhenItIsNoLongerAllowed(t *testing.T) {
	s := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	e := overhears(t, ctx, quietLocker(t, s))
	rdb := s.Client(t)
	if err := rdb.Do(t.Context(), "acl", "setuser", "default", "resetchannels", "&fairlock:wake:*-*").Err(); err != nil {
		t.Fatal(err) // it ends the connections of those who listen elsewhere
	}
	if got, err, ok := e.heard(); !ok || !redis.HasErrorPrefix(errors.Unwrap(err), "NOPERM") {
		t.Errorf("heard %+v, %v, %v", got, err, ok)
	}
}

func TestOverhearingEndsWithItsContextWithTheLockerAndWhenItIsRefused(t *testing.T) {
	s := redistest.Start(t)
	a := quietLocker(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	e, f := overhears(t, ctx, a), overhears(t, t.Context(), a)
	cancel()
	e.endsWith(context.Canceled)
	_ = a.Close()
	f.endsWith(fairlock.ErrClosed)

	var refused error
	for _, err := range quietLocker(t, s).Overhear(t.Context(), "") {
		refused = err
	}
	if !errors.Is(refused, fairlock.ErrInvalid) {
		t.Error(refused)
	}
	rdb := s.Client(t)
	if err := rdb.Do(t.Context(), "acl", "setuser", "default", "resetchannels", "&fairlock:wake:*-*").Err(); err != nil {
		t.Fatal(err)
	}
	for _, err := range quietLocker(t, s).Overhear(t.Context()) {
		refused = err
	}
	var why *fairlock.Error
	if !errors.As(refused, &why) || why.Op != "overhear" {
		t.Error(refused)
	}
}
