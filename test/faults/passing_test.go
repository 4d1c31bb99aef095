package faults

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// answering is a server that answers every request with an error for a while, instead of executing
// it.
type answering struct {
	text  string
	on    atomic.Bool
	calls atomic.Int32
}

// serverSays is an error from the server.
type serverSays string

func (e serverSays) Error() string { return string(e) }
func (serverSays) RedisError()     {}

func (a *answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *answering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !a.on.Load() {
			return next(ctx, cmd)
		}
		a.calls.Add(1)
		cmd.SetErr(serverSays(a.text))
		return cmd.Err()
	}
}

// says returns when n requests were answered with the error.
func (a *answering) says(f *faulty, n int32) {
	f.Helper()
	a.calls.Store(0)
	a.on.Store(true)
	f.Until("the error was answered", func() bool { return a.calls.Load() >= n })
}

// onErrorsThatPass runs the test with each error of a server that will execute the same request a
// moment later.
func onErrorsThatPass(t *testing.T, test func(f *faulty, u *world.User, a *answering)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down",
		"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down",
		"BUSY Redis is busy running a script", "READONLY You can't write against a read only replica.",
		"NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"OOM command not allowed when used memory > 'maxmemory'.",
	} {
		word, _, _ := strings.Cut(text, " ")
		tests[word] = func(t *testing.T) {
			f := newFaultyEmbedded(t)
			a := &answering{text: text}
			rdb := redis.NewClient(&redis.Options{Addr: f.Addr})
			rdb.AddHook(a)
			test(f, f.With(rdb, fairlock.WithLease(keptLease)), a)
		}
	}
	world.Together(t, tests)
}

func TestAHoldOutlastsErrorsThatPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		lease := u.Locks("x")
		server.says(f, 2)
		server.on.Store(false)
		before := lease.Deadline()
		f.Until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.Keeps(lease)
		f.Unlocks(lease)
		f.nobody("x")
	})
}

func TestAWaitOutlastsErrorsThatPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		lease := f.Beside(fairlock.WithLease(world.CalmLease)).Locks("x")
		w := u.Queues("x", 1)
		f.Heard(1)
		next := f.Beside().Queues("x", 2)
		server.says(f, 3)
		w.Waits()
		server.on.Store(false)
		f.Unlocks(lease)
		f.Served(w, next)
		f.nobody("x")
	})
}

func TestAReleaseIsRepeatedWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		lease := u.Locks("x")
		w := f.Beside(fairlock.WithLease(world.CalmLease)).Queues("x", 1)
		server.on.Store(true)
		unlocked := make(chan struct{})
		go func() {
			defer close(unlocked)
			f.Ends(lease)
			if err := lease.Unlock(background); err != nil {
				f.Error(err)
			}
		}()
		server.says(f, 3)
		w.Waits()
		server.on.Store(false)
		<-unlocked
		f.Served(w)
		f.nobody("x")
	})
}

// The call asks for a watchdog, which the hold does not have, and the server does not say yes.
func TestAReentryThatNeedsALongerLeaseWaitsNoLongerThanItsBoundWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		for name, ask := range map[string]func(context.Context, string) (*fairlock.Lease, error){
			"bounded": func(ctx context.Context, name string) (*fairlock.Lease, error) {
				return u.Lock(ctx, name, fairlock.WaitAtMost(50*time.Millisecond))
			},
			"tried": func(ctx context.Context, name string) (*fairlock.Lease, error) { return u.TryLock(ctx, name) },
		} {
			lease := u.Locks(name, fairlock.LeaseFor(time.Minute))
			server.on.Store(true)
			ctx, cancel := context.WithTimeout(lease.Context(), 5*time.Second)
			_, err := ask(ctx, name)
			server.on.Store(false)
			if waited := new(fairlock.WaitError); !errors.As(err, &waited) || ctx.Err() != nil {
				f.Errorf("%s: it ended with %v", name, err)
			}
			cancel()
			f.Keeps(lease)
			f.Unlocks(lease)
			f.nobody(name)
		}
	})
}

func TestALeavingIsRepeatedWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		lease := f.Beside().Locks("x")
		w := u.Queues("x", 1)
		next := f.Beside().Queues("x", 2)
		server.on.Store(true)
		w.Cancel()
		w.Fails()
		server.says(f, 3)
		server.on.Store(false)
		f.Until("it has left", func() bool { return f.Line("x") == 1 })
		f.Unlocks(lease)
		f.Served(next)
		f.nobody("x")
	})
}

func TestANewCallFailsAtOnceWithAnErrorThatPassesUnlessItsKeysAreOnTheirWayToAnotherNode(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *world.User, server *answering) {
		f.Unlocks(u.Locks("x"))
		word, _, _ := strings.Cut(server.text, " ")
		if word == "TRYAGAIN" {
			got := make(chan *fairlock.Lease, 1)
			go func() {
				lease, err := u.Lock(background, "x")
				if err != nil {
					f.Error(err)
				}
				got <- lease
			}()
			server.says(f, 2)
			server.on.Store(false)
			f.Unlocks(<-got)
			f.nobody("x")
			return
		}
		server.on.Store(true)
		f.Refuses(u.Interface, "x", world.Refusal{Is: serverSays(server.text), Says: word})
		f.InspectRefused(u.Interface, "x", world.Refusal{Is: serverSays(server.text), Says: word})
		server.on.Store(false)
		f.nobody("x")
	})
}

func TestAnUnlockThatTheServerRefusesForGoodSaysSoAtOnce(t *testing.T) {
	f := newFaultyEmbedded(t)
	server := &answering{text: "ERR no"}
	rdb := redis.NewClient(&redis.Options{Addr: f.Addr})
	rdb.AddHook(server)
	lease := f.With(rdb).Locks("x", fairlock.LeaseFor(2*time.Second))
	server.on.Store(true)
	f.Ends(lease)
	f.Refused("unlock", "x", world.Refusal{Is: serverSays("ERR no"), Says: "the lock stays until its lease ends"}, func() error {
		return lease.Unlock(background)
	})
	server.on.Store(false)
	f.Until("the lease has ended", func() bool { return f.Holder("x") == 0 })
	f.nobody("x")
}
