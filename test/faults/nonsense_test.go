package faults

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
	"github.com/fairlock/locks/test/world"
)

// onNothingSent runs the test and fails if a request reached the proxy.
func onNothingSent(t *testing.T, test func(f *faulty)) {
	t.Helper()
	f := newFaultyEmbedded(t)
	test(f)
	if n := f.Proxy.Count(faultproxy.Any); n != 0 {
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
				why := world.Refusal{Is: fairlock.ErrInvalid, Says: "the client is nil"}
				f.Refuses(l, "x", why)
				f.InspectRefused(l, "x", why)
				f.Must(l.Close())
			})
		}
	})
}

func TestAClosedClientIsAClearErrorOfEveryCall(t *testing.T) {
	f := newFaulty(t)
	fresh, used := f.Beside(), f.Beside()
	f.Unlocks(used.Locks("x"))
	for _, u := range []*world.User{fresh, used} {
		f.Must(u.Client.Close())
		why := world.Refusal{Is: redis.ErrClosed, Says: "client is closed"}
		f.Refuses(u.Interface, "x", why)
		f.InspectRefused(u.Interface, "x", why)
	}
}

func TestAClosedLockerIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.Behind().Interface
		f.Must(l.Close())
		why := world.Refusal{Is: fairlock.ErrClosed, Says: "closed"}
		f.Refuses(l, "x", why)
		f.InspectRefused(l, "x", why)
		f.Must(l.Close())
	})
}

func TestANameThatMakesNoSenseIsAClearErrorOfEveryCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.Behind().Interface
		for name, says := range map[string]string{
			"": "empty", strings.Repeat("x", 513): "513 bytes", "}x": "hash tag",
		} {
			why := world.Refusal{Is: fairlock.ErrInvalid, Says: says}
			f.Refuses(l, name, why)
			f.InspectRefused(l, name, why)
		}
	})
}

func TestNamesWithBracesAndOddBytesAreLocksOfTheirOwn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		u := f.Beside()
		var leases []*fairlock.Lease
		for _, name := range []string{
			"x", "a{x}", "a{x}b", "{", "{}", "x}", "x{", "{}{x}", "x y", "x:y", "x\r\ny", "\x00", "ключ", strings.Repeat("x", 512), "*", "?", "x\\",
		} {
			leases = append(leases, u.Locks(name))
		}
		if _, err := u.TryLock(background, "{x}"); !errors.Is(err, fairlock.ErrHeld) {
			f.Errorf("{x} is not x: %v", err)
		}
		for _, lease := range leases {
			w := f.Beside().Asks(background, lease.Name())
			f.Until("somebody waits", func() bool {
				state, err := u.Inspect(background, lease.Name())
				f.Must(err)
				return len(state.Waiters) == 1
			})
			f.Unlocks(lease)
			f.Served(w)
		}
	})
}

func TestAnOptionThatMakesNoSenseIsAClearErrorOfTheCall(t *testing.T) {
	onNothingSent(t, func(f *faulty) {
		l := f.Behind().Interface
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
			f.Refuses(l, "x", world.Refusal{Is: fairlock.ErrInvalid, Says: says}, option)
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
			l := f.Behind(option).Interface
			f.Refuses(l, "x", world.Refusal{Is: fairlock.ErrInvalid, Says: says})
			f.InspectRefused(l, "x", world.Refusal{Is: fairlock.ErrInvalid, Says: says})
		}
	})
}

func TestANilOptionIsAnErrorOfTheCallOrNoneAndNoPanic(t *testing.T) {
	f := newFaultyEmbedded(t)
	for what, call := range map[string]func() (*fairlock.Lease, error){
		"of the Locker": func() (*fairlock.Lease, error) { return fairlock.New(f.Direct, nil).Lock(background, "x") },
		"of the call":   func() (*fairlock.Lease, error) { return f.Beside().Lock(background, "x", nil) },
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("it panicked: %v", r)
				}
			}()
			if lease, err := call(); err == nil {
				f.Unlocks(lease)
			} else if !errors.Is(err, fairlock.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}

func TestACallWhoseContextHasEndedSendsNothing(t *testing.T) {
	f := newFaultyEmbedded(t)
	fresh, used := f.Behind(), f.Behind()
	f.Unlocks(used.Locks("y"))
	before := f.Proxy.Count(faultproxy.Any)
	for range 10 {
		f.endedContext(fresh.Interface)
		f.endedContext(used.Interface)
	}
	f.Must(fresh.Close()) // and what it did in the background is done
	f.Must(used.Close())
	if n := f.Proxy.Count(faultproxy.Any) - before; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// endedContext makes every call with a context that has already ended.
func (f *faulty) endedContext(l fairlock.Interface) {
	f.Helper()
	why := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(background)
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
		f.Must(f.Direct.ConfigSet(background, "maxmemory-policy", policy).Err())
		var log bytes.Buffer
		l := fairlock.New(f.Direct, fairlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		for range 3 {
			lease, err := l.Lock(background, "x")
			f.Must(err)
			f.Must(lease.Unlock(background))
		}
		f.Must(l.Close())
		if n := strings.Count(log.String(), "level=WARN"); n != want || n > 0 && !strings.Contains(log.String(), policy) {
			f.Errorf("%s: %d warnings:\n%s", policy, n, log.String())
		}
	}
}

func TestWhatANilLeaseIsAskedItAnswers(t *testing.T) {
	var lease *fairlock.Lease
	for what, err := range map[string]error{
		"Unlock": lease.Unlock(background), "Extend": lease.Extend(background, time.Second), "Err": lease.Err(), "Context": context.Cause(lease.Context()),
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
