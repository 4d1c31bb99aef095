package fairlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// answering is a server that for a while answers every request with an error instead of executing it.
type answering struct {
	text  string
	on    atomic.Bool
	calls atomic.Int32
}

// serverSays is an error of the server's.
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
	f.until("the error was answered", func() bool { return a.calls.Load() >= n })
}

// onErrorsThatPass runs the test with each error of a server that will do the same request a moment later.
func onErrorsThatPass(t *testing.T, test func(f *faulty, u *faultUser, a *answering)) {
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
			rdb := redis.NewClient(&redis.Options{Addr: f.addr})
			rdb.AddHook(a)
			test(f, f.with(rdb, fairlock.WithLease(briefLease)), a)
		}
	}
	together(t, tests)
}

func TestAHoldOutlastsErrorsThatPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		lease := u.locks("x")
		server.says(f, 2)
		server.on.Store(false)
		before := lease.Deadline()
		f.until("it is renewed", func() bool { return lease.Deadline().After(before) })
		f.keeps(lease)
		f.unlocks(lease)
		f.nobody("x")
	})
}

func TestAWaitOutlastsErrorsThatPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		lease := f.beside(fairlock.WithLease(briefLease)).locks("x")
		w := u.queues("x", 1)
		f.heard(1)
		next := f.beside().queues("x", 2)
		server.says(f, 3)
		w.waits()
		server.on.Store(false)
		f.unlocks(lease)
		f.served(w, next)
		f.nobody("x")
	})
}

func TestAReleaseIsRepeatedWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		lease := u.locks("x")
		w := f.beside(fairlock.WithLease(briefLease)).queues("x", 1)
		server.on.Store(true)
		unlocked := make(chan struct{})
		go func() {
			defer close(unlocked)
			f.ends(lease)
			if err := lease.Unlock(faultCtx); err != nil {
				f.Error(err)
			}
		}()
		server.says(f, 3)
		w.waits()
		server.on.Store(false)
		<-unlocked
		f.served(w)
		f.nobody("x")
	})
}

// It asks for a watchdog, which the hold does not have, and the server does not say yes.
func TestAReentryThatNeedsALongerLeaseWaitsNoLongerThanItsBoundWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		for name, ask := range map[string]func(context.Context, string) (*fairlock.Lease, error){
			"bounded": func(ctx context.Context, name string) (*fairlock.Lease, error) {
				return u.Lock(ctx, name, fairlock.WaitAtMost(50*time.Millisecond))
			},
			"tried": func(ctx context.Context, name string) (*fairlock.Lease, error) { return u.TryLock(ctx, name) },
		} {
			lease := u.locks(name, fairlock.LeaseFor(time.Minute))
			server.on.Store(true)
			ctx, cancel := context.WithTimeout(lease.Context(), 5*time.Second)
			_, err := ask(ctx, name)
			server.on.Store(false)
			if waited := new(fairlock.WaitError); !errors.As(err, &waited) || ctx.Err() != nil {
				f.Errorf("%s: it ended with %v", name, err)
			}
			cancel()
			f.keeps(lease)
			f.unlocks(lease)
			f.nobody(name)
		}
	})
}

func TestALeavingIsRepeatedWhileErrorsPass(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		lease := f.beside().locks("x")
		w := u.queues("x", 1)
		next := f.beside().queues("x", 2)
		server.on.Store(true)
		w.cancel()
		w.fails()
		server.says(f, 3)
		server.on.Store(false)
		f.until("it has left", func() bool { return f.line("x") == 1 })
		f.unlocks(lease)
		f.served(next)
		f.nobody("x")
	})
}

func TestANewCallFailsAtOnceWithAnErrorThatPassesUnlessItsKeysAreOnTheirWayToAnotherNode(t *testing.T) {
	onErrorsThatPass(t, func(f *faulty, u *faultUser, server *answering) {
		f.unlocks(u.locks("x"))
		word, _, _ := strings.Cut(server.text, " ")
		if word == "TRYAGAIN" {
			got := make(chan *fairlock.Lease, 1)
			go func() {
				lease, err := u.Lock(faultCtx, "x")
				if err != nil {
					f.Error(err)
				}
				got <- lease
			}()
			server.says(f, 2)
			server.on.Store(false)
			f.unlocks(<-got)
			f.nobody("x")
			return
		}
		server.on.Store(true)
		f.refuses(u.Interface, "x", refusal{is: serverSays(server.text), says: word})
		f.inspectRefused(u.Interface, "x", refusal{is: serverSays(server.text), says: word})
		server.on.Store(false)
		f.nobody("x")
	})
}

func TestAnUnlockThatTheServerRefusesForGoodSaysSoAtOnce(t *testing.T) {
	f := newFaultyEmbedded(t)
	server := &answering{text: "ERR no"}
	rdb := redis.NewClient(&redis.Options{Addr: f.addr})
	rdb.AddHook(server)
	lease := f.with(rdb).locks("x", fairlock.LeaseFor(300*time.Millisecond))
	server.on.Store(true)
	f.ends(lease)
	f.refused("unlock", "x", refusal{is: serverSays("ERR no"), says: "the lock stays until its lease ends"}, func() error {
		return lease.Unlock(faultCtx)
	})
	server.on.Store(false)
	f.until("the lease has ended", func() bool { return f.holder("x") == 0 })
	f.nobody("x")
}
