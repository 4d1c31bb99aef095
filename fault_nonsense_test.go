package fairlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

// onNothingSent runs the test and fails if a request reached the proxy.
func onNothingSent(t *testing.T, test func(f *faulty)) {
	t.Helper()
	f := newFaultyEmbedded(t)
	test(f)
	if n := f.proxy.Count(faultproxy.Any); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestANilClientIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		for what, client := range map[string]redis.UniversalClient{
			"nil": nil, "typed": (*redis.Client)(nil), "cluster": (*redis.ClusterClient)(nil),
		} {
			t.Run(what, func(t *testing.T) {
				l := fairlock.New(client)
				why := refusal{is: fairlock.ErrInvalid, says: "the client is nil"}
				f.refuses(l, "x", why)
				f.inspectRefused(l, "x", why)
				f.must(l.Close())
			})
		}
	})
}

func TestAClosedClientIsAClearErrorOfEveryCall(t *testing.T) {
	f := newFaulty(t)
	fresh, used := f.beside(), f.beside()
	f.unlocks(used.locks("x"))
	for _, u := range []*faultUser{fresh, used} {
		f.must(u.rdb.Close())
		why := refusal{is: redis.ErrClosed, says: "client is closed"}
		f.refuses(u.Interface, "x", why)
		f.inspectRefused(u.Interface, "x", why)
	}
}

func TestAClosedLockerIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.behind().Interface
		f.must(l.Close())
		why := refusal{is: fairlock.ErrClosed, says: "closed"}
		f.refuses(l, "x", why)
		f.inspectRefused(l, "x", why)
		f.must(l.Close())
	})
}

func TestANameThatMakesNoSenseIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.behind().Interface
		for name, says := range map[string]string{
			"": "empty", strings.Repeat("x", 513): "513 bytes", "}x": "hash tag",
		} {
			why := refusal{is: fairlock.ErrInvalid, says: says}
			f.refuses(l, name, why)
			f.inspectRefused(l, name, why)
		}
	})
}

func TestNamesWithBracesAndOddBytesAreLocksOfTheirOwn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		u := f.beside()
		var leases []*fairlock.Lease
		for _, name := range []string{
			"x", "a{x}", "a{x}b", "{", "{}", "x}", "x{", "{}{x}", "x y", "x:y", "x\r\ny", "\x00", "ключ", strings.Repeat("x", 512), "*", "?", "x\\",
		} {
			leases = append(leases, u.locks(name))
		}
		if _, err := u.TryLock(faultCtx, "{x}"); !errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("{x} is not x: %v", err)
		}
		for _, lease := range leases {
			w := f.beside().asks(faultCtx, lease.Name())
			f.until("somebody waits", func() bool {
				state, err := u.Inspect(faultCtx, lease.Name())
				f.must(err)
				return len(state.Waiters) == 1
			})
			f.unlocks(lease)
			f.served(w)
		}
	})
}

func TestAnOptionThatMakesNoSenseIsAClearErrorOfTheCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.behind().Interface
		for says, option := range map[string]fairlock.LockOption{
			"LeaseFor: 0s":      fairlock.LeaseFor(0),
			"LeaseFor: -1s":     fairlock.LeaseFor(-time.Second),
			"LeaseFor: 99ms":    fairlock.LeaseFor(99 * time.Millisecond),
			"LeaseFor: 8785h":   fairlock.LeaseFor(8785 * time.Hour),
			"WaitAtMost: -1ns":  fairlock.WaitAtMost(-1),
			"MaxWaiters: 0":     fairlock.MaxWaiters(0),
			"MaxWaiters: -1":    fairlock.MaxWaiters(-1),
			"WithOwner: the":    fairlock.WithOwner(" "),
			"WithOwner: 257":    fairlock.WithOwner(strings.Repeat("x", 257)),
			"Note: 257 bytes":   fairlock.Note(strings.Repeat("x", 257)),
			"99ms is less than": fairlock.LeaseFor(99 * time.Millisecond),
		} {
			f.refuses(l, "x", refusal{is: fairlock.ErrInvalid, says: says}, option)
		}
	})
}

func TestAnOptionOfTheLockerThatMakesNoSenseIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		for says, option := range map[string]fairlock.Option{
			"WithLease: 0s":      fairlock.WithLease(0),
			"WithLease: -1s":     fairlock.WithLease(-time.Second),
			"WithPrefix: ":       fairlock.WithPrefix(""),
			"a brace":            fairlock.WithPrefix("a{b}"),
			"129 bytes":          fairlock.WithPrefix(strings.Repeat("x", 129)),
			"the logger is nil":  fairlock.WithLogger(nil),
			"WithIdentity: 7 is": fairlock.WithIdentity(7),
		} {
			l := f.behind(option).Interface
			f.refuses(l, "x", refusal{is: fairlock.ErrInvalid, says: says})
			f.inspectRefused(l, "x", refusal{is: fairlock.ErrInvalid, says: says})
		}
	})
}

func TestANilOptionIsAnErrorOfTheCallOrNoneAndNoPanic(t *testing.T) {
	f := newFaultyEmbedded(t)
	for what, call := range map[string]func() (*fairlock.Lease, error){
		"of the Locker": func() (*fairlock.Lease, error) { return fairlock.New(f.direct, nil).Lock(faultCtx, "x") },
		"of the call":   func() (*fairlock.Lease, error) { return f.beside().Lock(faultCtx, "x", nil) },
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("it panicked: %v", r)
				}
			}()
			if lease, err := call(); err == nil {
				f.unlocks(lease)
			} else if !errors.Is(err, fairlock.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}

func TestACallWhoseContextHasEndedSendsNothing(t *testing.T) {
	f := newFaultyEmbedded(t)
	fresh, used := f.behind(), f.behind()
	f.unlocks(used.locks("y"))
	before := f.proxy.Count(faultproxy.Any)
	for range 10 {
		f.endedContext(fresh.Interface)
		f.endedContext(used.Interface)
	}
	f.must(fresh.Close()) // and what it would do in the background is done
	f.must(used.Close())
	if n := f.proxy.Count(faultproxy.Any) - before; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// endedContext makes every call with a context that has ended.
func (f *faulty) endedContext(l fairlock.Interface) {
	f.Helper()
	why := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(faultCtx)
	cancel(why)
	_, err := l.Lock(ctx, "x")
	_, tryErr := l.TryLock(ctx, "x")
	_, inspectErr := l.Inspect(ctx, "x")
	doErr := l.Do(ctx, "x", func(context.Context, *fairlock.Lease) error { return nil })
	for op, err := range map[string]error{"lock": err, "trylock": tryErr, "do": doErr, "inspect": inspectErr} {
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || !strings.Contains(fmt.Sprint(err), op+` "x"`) {
			f.Errorf("%s: %v", op, err)
		}
	}
}

func TestAServerThatMayEvictLocksIsWarnedOfOnce(t *testing.T) {
	f := newFaulty(t)
	for policy, want := range map[string]int{"allkeys-lru": 1, "volatile-ttl": 1, "noeviction": 0} {
		f.must(f.direct.ConfigSet(faultCtx, "maxmemory-policy", policy).Err())
		var log bytes.Buffer
		l := fairlock.New(f.direct, fairlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 3 {
			lease, err := l.Lock(faultCtx, "x")
			f.must(err)
			f.must(lease.Unlock(faultCtx))
		}
		f.must(l.Close())
		if n := strings.Count(log.String(), "level=WARN"); n != want || n > 0 && !strings.Contains(log.String(), policy) {
			f.Errorf("%s: %d warnings:\n%s", policy, n, log.String())
		}
	}
}

func TestWhatANilLeaseIsAskedItAnswers(t *testing.T) {
	var lease *fairlock.Lease
	for what, err := range map[string]error{
		"Unlock": lease.Unlock(faultCtx), "Extend": lease.Extend(faultCtx, time.Second), "Err": lease.Err(), "Context": context.Cause(lease.Context()),
	} {
		if !errors.Is(err, fairlock.ErrNotHeld) {
			t.Errorf("%s: %v", what, err)
		}
	}
	<-lease.Done()
	lease.Detach()
	if lease.Name() != "" || lease.Owner() != "" || lease.Token() != 0 || lease.Depth() != 0 || !lease.Deadline().IsZero() {
		t.Error("it holds something")
	}
}
