package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// outlasts is a lease that outlasts a restart: a busy machine takes its time to start a server.
const outlasts = 15 * time.Second

func TestAfterARestartWithoutDataTheHolderHasTheLockAndThoseWhoWaitTheirOrder(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside(fairlock.WithLease(outlasts)).Locks("x")
	waits, _ := f.tenWait(outlasts)
	f.Server.Kill()
	f.Server.Restart()
	f.LoadScripts()
	f.Until("the line is there again", func() bool { return f.Line("x") == 10 && f.Holder("x") == lease.Token() })
	f.Keeps(lease)
	f.Unlocks(lease)
	f.Served(waits...)
	f.nobody("x")
}

func TestAfterARestartWithoutDataThoseWhoWaitForADeadHolderGetTheLockInOrder(t *testing.T) {
	f := newFaulty(t)
	f.Ends(f.Beside().Locks("x", fairlock.LeaseFor(8*time.Second))) // until ten are in line
	waits, _ := f.tenWait(world.CalmLease)
	f.Server.Kill()
	f.Server.Restart()
	waits[0].Gets()
	f.Served(waits...)
	f.nobody("x")
}

func TestAListOutlivesAConnectionThatBreaks(t *testing.T) {
	f := newFaulty(t)
	u := f.Behind()
	lease := u.Locks("x")
	f.Proxy.Add(faultproxy.Rule{Match: faultproxy.Command("SCAN"), Times: 1, Action: faultproxy.DropRequest()})
	found := 0
	for _, err := range u.List(t.Context()) {
		if found++; err != nil {
			t.Error(err)
		}
	}
	if found != 1 {
		t.Errorf("it lists %d locks", found)
	}
	f.Unlocks(lease)
}

func TestALockIsTakenAgainAfterARestart(t *testing.T) {
	f := newFaulty(t)
	u := f.Beside()
	last := u.Locks("x")
	f.Unlocks(last)
	f.Server.Kill()
	f.Server.Restart()
	var next *fairlock.Lease
	f.Until("somebody gets it", func() bool { // pooled connections are dead, and each is noticed once
		next, _ = u.Lock(background, "y")
		return next != nil
	})
	if next.Token() <= last.Token() {
		f.Errorf("%d comes after %d", next.Token(), last.Token())
	}
	f.Took(next)
	f.Unlocks(next)
	f.nobody("y")
}

func TestEverybodyOutlastsARestartDuringWhichTheServerLoadsItsData(t *testing.T) {
	f := newFaulty(t, "--dbfilename", "dump.rdb", "--key-load-delay", "30000", "--loading-process-events-interval-bytes", "1024")
	for i := range 100 {
		f.Must(f.Direct.Set(background, fmt.Sprint("fairlock:token:", i), strings.Repeat("x", 1000), time.Minute).Err())
	}
	lease := f.Beside(fairlock.WithLease(outlasts)).Locks("x")
	waits, _ := f.tenWait(outlasts)
	f.Must(f.Direct.Save(background).Err())
	f.Server.Kill()
	loading := make(chan struct{})
	go func() {
		defer close(loading)
		f.Until("the server loads its data", func() bool {
			return redis.HasErrorPrefix(f.once(func(rdb *redis.Client) error { return rdb.Get(background, "x").Err() }), "LOADING")
		})
		time.Sleep(300 * time.Millisecond) // everybody else meets it too
		f.Until("the server loads faster", func() bool {
			return f.once(func(rdb *redis.Client) error { return rdb.ConfigSet(background, "key-load-delay", "0").Err() }) == nil
		})
	}()
	f.Server.Restart()
	<-loading
	f.Keeps(lease)
	for _, w := range waits {
		w.Waits()
	}
	f.Heard(4)
	f.Unlocks(lease)
	f.Served(waits...)
	f.nobody("x")
}

// once calls with a client of its own: a pool that could not dial answers from memory for a second.
func (f *faulty) once(call func(rdb *redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: f.Addr, MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	return call(rdb)
}

func TestEverybodyOutlastsAScriptOfSomebodyElseThatKeepsTheServerBusy(t *testing.T) {
	f := newFaulty(t, "--busy-reply-threshold", "1")
	lease := f.Beside(fairlock.WithLease(keptLease)).Locks("x")
	waits, _ := f.tenWait(world.CalmLease)
	f.Heard(4)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Direct.Eval(background, "while true do end", nil)
	}()
	f.Until("the server is busy", func() bool { return redis.HasErrorPrefix(f.Direct.Get(background, "x").Err(), "BUSY") })
	released := make(chan error)
	f.Ends(lease)
	go func() { released <- lease.Unlock(background) }()
	time.Sleep(200 * time.Millisecond)
	f.Must(f.Direct.ScriptKill(background).Err())
	<-ended
	f.Must(<-released)
	f.Served(waits...)
	f.nobody("x")
}

func TestThoseWhoWaitOutlastAServerThatIsAReplicaForAWhile(t *testing.T) {
	f := newFaulty(t)
	gone := redistest.Start(t) // a master that does not exist: the data stays
	gone.Kill()
	lease := f.Beside(fairlock.WithLease(world.CalmLease)).Locks("x")
	waits, _ := f.tenWait(world.CalmLease)
	f.Must(f.Direct.Do(background, "REPLICAOF", "127.0.0.1", gone.Port()).Err())
	<-lease.Done()
	if f.Ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
		f.Errorf("the holder says %v", lease.Err())
	}
	for _, w := range waits {
		w.Waits()
	}
	f.Must(f.Direct.Do(background, "REPLICAOF", "NO", "ONE").Err())
	f.Served(waits...)
	f.nobody("x")
}

// After a loss of data, other clients tell the server of the holder. The server then keeps the lock
// for a lease, or until that holder says that it is done.
func TestAReleaseThatComesAfterItsLeaseFreesTheLockOnAServerThatLostIt(t *testing.T) {
	server := redistest.Start(t)
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		holder, waiter := kind(server.Client(t), quiet, fairlock.WithLease(world.CalmLease)), kind(server.Client(t), quiet)
		defer holder.Close()
		defer waiter.Close()
		lease, err := holder.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		next := world.Queue(waiter, "x")
		server.Kill()
		if err := lease.Unlock(t.Context()); err == nil {
			t.Fatal("the server is gone")
		}
		server.Restart()
		// A waiter's lease of 30 s would be too late.
		world.Until(t, "it is free", func() bool { return len(next) > 0 })
		if got := <-next; got.Err != nil || got.Lease.Token() <= lease.Token() || got.Lease.Unlock(t.Context()) != nil {
			t.Fatalf("%+v", got)
		}
	})
}

// RESTORE without a TTL, PERSIST, or a user who may not PEXPIREAT leave such a record.
func TestARecordWithoutAnEndEndsWithTheLastOfItsHolds(t *testing.T) {
	server := redistest.Start(t)
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		rdb := server.Client(t)
		holder, next := kind(rdb, quiet, fairlock.WithLease(world.CalmLease)), kind(server.Client(t), quiet)
		defer next.Close()
		first, err := next.Lock(t.Context(), "another") // its first contact shall not use up the lease
		must(err)
		must(first.Unlock(t.Context()))
		_, err = holder.Lock(t.Context(), "x")
		must(err)
		must(holder.Close())
		must(rdb.Persist(t.Context(), prefix+":lock:{x}").Err())
		if _, err = next.TryLock(t.Context(), "x"); !errors.Is(err, fairlock.ErrHeld) {
			t.Fatal(err)
		}
		lease, err := next.Lock(t.Context(), "x", fairlock.WaitAtMost(20*time.Second))
		must(err)
		must(lease.Unlock(t.Context()))
	})
}

func TestARecordWithoutAnEndWhoseHoldsAreOverKeepsNobodyWaiting(t *testing.T) {
	server := redistest.Start(t)
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		for how, take := range map[string]func(l fairlock.Interface) (*fairlock.Lease, error){
			"Lock": func(l fairlock.Interface) (*fairlock.Lease, error) {
				return l.Lock(t.Context(), "x", fairlock.WaitAtMost(4*time.Second))
			},
			"TryLock": func(l fairlock.Interface) (*fairlock.Lease, error) { return l.TryLock(t.Context(), "x") },
		} {
			t.Run(how, func(t *testing.T) {
				rdb := server.Client(t)
				holder, next := kind(rdb, quiet), kind(server.Client(t), quiet)
				defer next.Close()
				held, err := holder.Lock(t.Context(), "x", fairlock.LeaseFor(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				record := prefix + ":lock:{x}"
				if persisted, err := rdb.Persist(t.Context(), record).Result(); err != nil || !persisted {
					t.Fatal(persisted, err)
				}
				over := fmt.Sprint(rdb.Time(t.Context()).Val().UnixMilli()-1, ":1")
				if added, err := rdb.HSet(t.Context(), record, held.Owner()+":60000::", over).Result(); err != nil || added != 0 {
					t.Fatal(added, err)
				}
				lease, err := take(next)
				if err != nil {
					t.Fatal(err)
				}
				if err := lease.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				_ = holder.Close() // what it holds is lost
			})
		}
	})
}
