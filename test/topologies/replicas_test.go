package topologies

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// sentHook notes which commands go out together.
type sentHook struct{ sent chan []string }

func (h sentHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h sentHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.sent <- []string{cmd.Name()}
		return next(ctx, cmd)
	}
}

func (h sentHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		h.sent <- names
		return next(ctx, cmds)
	}
}

func TestALockThatReplicasConfirmTakesOneRoundTrip(t *testing.T) {
	master, replica := world.Replicated(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		rdb := master.Client(t)
		locker := kind(rdb)
		defer locker.Close()
		// The first call makes contact and loads the scripts.
		warm, err := locker.Lock(t.Context(), "x", fairlock.WithReplicas(1, 2*time.Second))
		if err != nil || warm.Unlock(t.Context()) != nil {
			t.Fatal(err)
		}
		hook := sentHook{make(chan []string, 10)}
		rdb.AddHook(hook)
		for i, lock := range []func(context.Context, string, ...fairlock.LockOption) (*fairlock.Lease, error){locker.Lock, locker.TryLock} {
			lease, err := lock(t.Context(), "x", fairlock.WithReplicas(1, 2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if got := <-hook.sent; !slices.Equal(got, []string{"evalsha", "wait"}) || len(hook.sent) > 0 {
				t.Errorf("%d: sent %v and %d more", i, got, len(hook.sent))
			}
			if replica.Client(t).Exists(t.Context(), prefix+":lock:{x}").Val() != 1 {
				t.Errorf("%d: the replica does not have it", i)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-hook.sent
		}
	})
}

func TestALockThatTooFewReplicasConfirmIsGivenBack(t *testing.T) {
	master, replica := world.Replicated(t)
	alone := redistest.Start(t)
	paused := func(t *testing.T) *redistest.Server {
		replica.Pause()
		t.Cleanup(replica.Resume)
		return master
	}
	for what, c := range map[string]struct {
		server func(*testing.T) *redistest.Server
		says   string
	}{
		"the replica is paused":    {paused, "the server has 1 connected"},
		"there are no replicas":    {func(*testing.T) *redistest.Server { return alone }, "the server has 0 connected"},
		"there are fewer replicas": {func(*testing.T) *redistest.Server { return master }, "the server has 1 connected"},
	} {
		t.Run(what, func(t *testing.T) {
			s := c.server(t)
			world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
				locker, other := kind(s.Client(t)), kind(s.Client(t))
				defer locker.Close()
				defer other.Close()
				begin := time.Now()
				_, err := locker.Lock(t.Context(), "x", fairlock.WithReplicas(2, 150*time.Millisecond))
				took := time.Since(begin)
				if !errors.Is(err, fairlock.ErrNotReplicated) || !strings.Contains(err.Error(), " of 2 ") || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v", err)
				}
				if took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
				lease, err := other.Lock(t.Context(), "x") // free before the lease would be over
				if err != nil {
					t.Fatal(err)
				}
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if time.Since(begin) > 10*time.Second {
					t.Error("it was not given back")
				}
			})
		})
	}
}

// A grant by message was written by another client's request, so the waiter's first renewal asks
// the replicas.
func TestAWaiterHasTheLockOnlyOnceReplicasConfirmIt(t *testing.T) {
	master, replica := world.Replicated(t)
	for _, fixed := range []bool{false, true} {
		for _, works := range []bool{true, false} {
			t.Run("fixed="+strconv.FormatBool(fixed)+",works="+strconv.FormatBool(works), func(t *testing.T) {
				holder, waiter, last := fairlock.New(master.Client(t)), fairlock.New(master.Client(t)), fairlock.New(master.Client(t))
				defer holder.Close()
				defer waiter.Close()
				defer last.Close()
				lease, err := holder.Lock(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				line := func() int64 { return master.Client(t).LLen(t.Context(), "fairlock:queue:{x}").Val() }
				within := 2 * time.Second
				if !works {
					within = 200 * time.Millisecond
				}
				options := []fairlock.LockOption{fairlock.WithReplicas(1, within)}
				if fixed {
					options = append(options, fairlock.LeaseFor(20*time.Second))
				}
				first := world.InBackground(waiter, "x", options...)
				world.Until(t, "one waits", func() bool { return line() == 1 })
				second := world.InBackground(last, "x")
				world.Until(t, "both wait", func() bool { return line() == 2 })
				if !works {
					replica.Pause()
					defer replica.Resume()
				}
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				got := <-first
				if !works {
					if !errors.Is(got.Err, fairlock.ErrNotReplicated) {
						t.Fatalf("got %v", got.Err)
					}
				} else {
					if got.Err != nil {
						t.Fatal(got.Err)
					}
					if replica.Client(t).HGet(t.Context(), "fairlock:lock:{x}", "token").Val() != strconv.FormatInt(got.Lease.Token(), 10) {
						t.Error("the replica does not have it")
					}
					if err := got.Lease.Unlock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if next := <-second; next.Err != nil || next.Lease.Unlock(t.Context()) != nil {
					t.Fatal(next.Err)
				}
			})
		}
	}
}

func TestTheEmbeddedServerHasNoReplicasAndSaysSo(t *testing.T) {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	locker := fairlock.New(rdb)
	defer locker.Close()
	if _, err := locker.Lock(t.Context(), "x", fairlock.WithReplicas(1, 10*time.Millisecond)); !errors.Is(err, fairlock.ErrNotReplicated) {
		t.Fatalf("got %v", err)
	}
}

func TestALockThatMayNotBeConfirmedIsGivenBackAndTheErrorSaysWhy(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	if err := admin.Do(t.Context(), "acl", "setuser", "hasty", "on", "nopass", "~*", "&*", "+@all", "-wait").Err(); err != nil {
		t.Fatal(err)
	}
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(server.Client(t, func(o *redis.Options) { o.Username, o.Password = "hasty", "any" }))
		defer locker.Close()
		_, err := locker.Lock(t.Context(), "x", fairlock.WithReplicas(1, 10*time.Millisecond))
		if !errors.Is(err, fairlock.ErrNotReplicated) || !strings.Contains(err.Error(), "NOPERM") {
			t.Fatalf("got %v", err)
		}
		world.Until(t, "it is given back", func() bool { return admin.Exists(t.Context(), prefix+":lock:{x}").Val() == 0 })
	})
}

func TestAServerWithoutWAITAOFSaysSoAndTheLockIsGivenBack(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	if err := admin.Do(t.Context(), "waitaof", 0, 0, 1).Err(); err == nil {
		t.Skip("NOT SHOWN: this server has WAITAOF")
	}
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(server.Client(t))
		defer locker.Close()
		_, err := locker.Lock(t.Context(), "x", fairlock.WithFsync(0, 100*time.Millisecond))
		if !errors.Is(err, fairlock.ErrNotReplicated) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "7.2") {
			t.Fatalf("got %v", err)
		}
		world.Until(t, "it is given back", func() bool { return admin.Exists(t.Context(), prefix+":lock:{x}").Val() == 0 })
	})
}

// onDisk returns a server with an append-only file and WAITAOF, or ends the test.
func onDisk(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, "--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--repl-timeout", "3600")
	err := server.Client(t).Do(t.Context(), "waitaof", 0, 0, 1).Err()
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		t.Skip("NOT SHOWN: this server has no WAITAOF, which came with Redis 7.2: that WithFsync waits for a real disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestALockThatIsOnDiskIsThereWhenItsServerWasKilledAndCameBack(t *testing.T) {
	server := onDisk(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(server.Client(t), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
		defer locker.Close()
		lease, err := locker.Lock(t.Context(), "x", fairlock.WithFsync(0, 15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		server.Kill()
		server.Restart()
		if got := server.Client(t).HGet(t.Context(), prefix+":lock:{x}", "token").Val(); got != strconv.FormatInt(lease.Token(), 10) {
			t.Errorf("the server came back with token %q of %d", got, lease.Token())
		}
		if err := errors.Join(lease.Err(), lease.Unlock(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
}

func TestALockIsHadOnceItIsOnAReplicasDiskAndNotWhenThatStandsStill(t *testing.T) {
	master := onDisk(t)
	replica := redistest.Start(t, "--appendonly", "yes", "--replicaof", "127.0.0.1 "+strconv.Itoa(master.Port()))
	admin := master.Client(t)
	world.Until(t, "the replica follows, with its file", func() bool {
		both := admin.Pipeline() // WAITAOF covers only what its own connection wrote
		both.Set(t.Context(), "any", "1", time.Millisecond)
		got := both.Do(t.Context(), "waitaof", 1, 1, 3000)
		_, err := both.Exec(t.Context())
		return err == nil && slices.Equal(got.Val().([]any), []any{int64(1), int64(1)})
	})
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(master.Client(t))
		defer locker.Close()
		lease, err := locker.Lock(t.Context(), "x", fairlock.WithFsync(1, 15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		record := prefix + ":lock:{x}"
		if got := replica.Client(t).HGet(t.Context(), record, "token").Val(); got != strconv.FormatInt(lease.Token(), 10) {
			t.Errorf("the replica has token %q of %d", got, lease.Token())
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		replica.Pause()
		defer replica.Resume()
		_, err = locker.Lock(t.Context(), "x", fairlock.WithFsync(1, 1500*time.Millisecond))
		if !errors.Is(err, fairlock.ErrNotReplicated) || !strings.Contains(err.Error(), "0 of 1 ") {
			t.Fatalf("got %v", err)
		}
		world.Until(t, "it is given back", func() bool { return admin.Exists(t.Context(), record).Val() == 0 })
	})
}

func TestALockIsNotHadWhereNothingIsWrittenToDisk(t *testing.T) {
	server := onDisk(t)
	admin := server.Client(t)
	if err := admin.ConfigSet(t.Context(), "appendonly", "no").Err(); err != nil {
		t.Fatal(err)
	}
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		locker := kind(server.Client(t))
		defer locker.Close()
		_, err := locker.Lock(t.Context(), "x", fairlock.WithFsync(0, 100*time.Millisecond))
		if !errors.Is(err, fairlock.ErrNotReplicated) || !strings.Contains(err.Error(), "appendonly") {
			t.Fatalf("got %v", err)
		}
		world.Until(t, "it is given back", func() bool { return admin.Exists(t.Context(), prefix+":lock:{x}").Val() == 0 })
	})
}

// The replies are those of a server that has WAITAOF.
func TestALockIsHadOnlyOnceItIsOnDiskAsOftenAsWasAskedFor(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range []struct {
		reply    string
		replicas int
		had      bool
	}{
		{"*2\r\n:1\r\n:0\r\n", 0, true},
		{"*2\r\n:1\r\n:2\r\n", 2, true},
		{"*2\r\n:0\r\n:0\r\n", 0, false},
		{"*2\r\n:0\r\n:1\r\n", 1, false},
		{"*2\r\n:1\r\n:1\r\n", 2, false},
		{"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n", 0, false},
		{":1\r\n", 0, false},
	} {
		t.Run(strconv.Quote(c.reply), func(t *testing.T) {
			world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
				proxy := faultproxy.New(t, server.Addr())
				asked := proxy.Add(faultproxy.Rule{
					Match: func(args []string) bool {
						return slices.Equal(args, []string{"waitaof", "1", strconv.Itoa(c.replicas), "150"})
					},
					Action: faultproxy.RewriteReply(func([]byte) []byte { return []byte(c.reply) }),
				})
				rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
				defer rdb.Close()
				locker := kind(rdb)
				defer locker.Close()
				lease, err := locker.Lock(t.Context(), "x", fairlock.WithFsync(c.replicas, 150*time.Millisecond))
				if c.had && (err != nil || lease.Unlock(t.Context()) != nil) || !c.had && !errors.Is(err, fairlock.ErrNotReplicated) {
					t.Fatalf("got %v", err)
				}
				if asked.Executed() == 0 {
					t.Error("it was not asked")
				}
				world.Until(t, "it is free", func() bool { return server.Client(t).Exists(t.Context(), prefix+":lock:{x}").Val() == 0 })
			})
		})
	}
}

func TestReplicasAndDiskAreNotAskedForTogether(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	locker := fairlock.New(rdb)
	defer locker.Close()
	for _, options := range [][]fairlock.LockOption{
		{fairlock.WithReplicas(1, time.Second), fairlock.WithFsync(1, time.Second)},
		{fairlock.WithFsync(0, time.Second), fairlock.WithReplicas(1, time.Second)},
	} {
		if _, err := locker.Lock(t.Context(), "x", options...); !errors.Is(err, fairlock.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAReplicaIsRefusedAtOnceAndServesWhenItHasBecomeTheMaster(t *testing.T) {
	master, replica := world.Replicated(t)
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		rdb := replica.Client(t)
		locker := kind(rdb)
		defer locker.Close()
		_, err := locker.Lock(t.Context(), "x")
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "a replica of "+master.Addr()) {
			t.Fatalf("got %v", err)
		}
		if err := rdb.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
			t.Fatal(err)
		}
		lease, err := locker.Lock(t.Context(), "x")
		if err != nil || lease.Unlock(t.Context()) != nil {
			t.Fatal(err)
		}
		if err := rdb.ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(master.Port())).Err(); err != nil {
			t.Fatal(err)
		}
		world.Until(t, "it follows again", func() bool { return master.Client(t).Wait(t.Context(), 1, time.Second).Val() == 1 })
	})
}

func TestARingIsRefusedBeforeAnythingIsSent(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:0"}})
	defer ring.Close()
	type wrapped struct{ *redis.Ring }
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		for _, rdb := range []redis.UniversalClient{ring, wrapped{ring}} {
			locker := kind(rdb)
			t.Cleanup(func() { _ = locker.Close() }) // it never fails
			if _, err := locker.TryLock(t.Context(), "x"); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "only a single Redis") {
				t.Fatalf("got %v", err)
			}
		}
	})
}
