package fairlock_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

func TestAfterARestartWithoutDataTheHolderHasTheLockAndThoseWhoWaitTheirOrder(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside(fairlock.WithLease(6 * time.Second)).locks("x")
	waits, _ := f.tenWait(6 * time.Second)
	f.server.Kill()
	f.server.Restart()
	f.loadScripts()
	f.until("the line is there again", func() bool { return f.line("x") == 10 && f.holder("x") == lease.Token() })
	f.keeps(lease)
	f.unlocks(lease)
	f.served(waits...)
	f.nobody("x")
}

func TestAfterARestartWithoutDataThoseWhoWaitForADeadHolderGetTheLockInOrder(t *testing.T) {
	f := newFaulty(t)
	f.ends(f.beside().locks("x", fairlock.LeaseFor(time.Second)))
	waits, _ := f.tenWait(time.Second)
	f.server.Kill()
	f.server.Restart()
	f.served(waits...)
	f.nobody("x")
}

func TestALockIsTakenAgainAfterARestart(t *testing.T) {
	f := newFaulty(t)
	u := f.beside()
	last := u.locks("x")
	f.unlocks(last)
	f.server.Kill()
	f.server.Restart()
	var next *fairlock.Lease
	f.until("somebody gets it", func() bool { // pooled connections are dead, and each is noticed once
		next, _ = u.Lock(faultCtx, "y")
		return next != nil
	})
	if next.Token() <= last.Token() {
		f.Errorf("%d comes after %d", next.Token(), last.Token())
	}
	f.took(next)
	f.unlocks(next)
	f.nobody("y")
}

func TestEverybodyOutlastsARestartDuringWhichTheServerLoadsItsData(t *testing.T) {
	f := newFaulty(t, "--dbfilename", "dump.rdb", "--key-load-delay", "3000", "--loading-process-events-interval-bytes", "1024")
	for i := range 100 {
		f.must(f.direct.Set(faultCtx, fmt.Sprint("fairlock:token:", i), strings.Repeat("x", 1000), time.Minute).Err())
	}
	lease := f.beside(fairlock.WithLease(5 * time.Second)).locks("x")
	waits, _ := f.tenWait(5 * time.Second)
	f.must(f.direct.Save(faultCtx).Err())
	f.server.Kill()
	restarted := make(chan struct{})
	loading := make(chan bool, 1)
	go func() { // somebody who is there all the time
		rdb := redis.NewClient(&redis.Options{Addr: f.addr, MaxRetries: -1})
		defer rdb.Close()
		seen := false
		for {
			select {
			case <-restarted:
				loading <- seen
				return
			default:
				seen = seen || redis.HasErrorPrefix(rdb.Get(faultCtx, "x").Err(), "LOADING")
			}
		}
	}()
	f.server.Restart()
	close(restarted)
	if !<-loading {
		f.Error("the server was never seen loading")
	}
	f.keeps(lease)
	for _, w := range waits {
		w.waits()
	}
	f.heard(4)
	f.unlocks(lease)
	f.served(waits...)
	f.nobody("x")
}

func TestEverybodyOutlastsAScriptOfSomebodyElseThatKeepsTheServerBusy(t *testing.T) {
	f := newFaulty(t, "--busy-reply-threshold", "1")
	lease := f.beside(fairlock.WithLease(time.Second)).locks("x")
	waits, _ := f.tenWait(time.Second)
	f.heard(4)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.direct.Eval(faultCtx, "while true do end", nil)
	}()
	f.until("the server is busy", func() bool { return redis.HasErrorPrefix(f.direct.Get(faultCtx, "x").Err(), "BUSY") })
	released := make(chan error)
	f.ends(lease)
	go func() { released <- lease.Unlock(faultCtx) }()
	time.Sleep(200 * time.Millisecond)
	f.must(f.direct.ScriptKill(faultCtx).Err())
	<-ended
	f.must(<-released)
	f.served(waits...)
	f.nobody("x")
}

func TestThoseWhoWaitOutlastAServerThatIsAReplicaForAWhile(t *testing.T) {
	f := newFaulty(t)
	gone := redistest.Start(t) // a master that is not there: the data stay
	gone.Kill()
	lease := f.beside(fairlock.WithLease(briefLease)).locks("x")
	waits, _ := f.tenWait(briefLease)
	f.must(f.direct.Do(faultCtx, "REPLICAOF", "127.0.0.1", gone.Port()).Err())
	<-lease.Done()
	if f.ends(lease); !errors.Is(lease.Err(), fairlock.ErrLost) {
		f.Errorf("the holder says %v", lease.Err())
	}
	for _, w := range waits {
		w.waits()
	}
	f.must(f.direct.Do(faultCtx, "REPLICAOF", "NO", "ONE").Err())
	f.served(waits...)
	f.nobody("x")
}

// A server that lost its data keeps the lock for whom others tell it of: for a lease, unless that one says that it is done.
func TestAReleaseThatComesAfterItsLeaseFreesTheLockOnAServerThatLostIt(t *testing.T) {
	server := redistest.Start(t)
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	bothKinds(t, func(t *testing.T, kind newLocker, _ string) {
		holder, waiter := kind(server.Client(t), quiet, fairlock.WithLease(900*time.Millisecond)), kind(server.Client(t), quiet)
		defer holder.Close()
		defer waiter.Close()
		lease, err := holder.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		next := queues(waiter, "x")
		server.Kill()
		if err := lease.Unlock(t.Context()); err == nil {
			t.Fatal("the server is gone")
		}
		server.Restart()
		waitUntil(t, "it is free", func() bool { return len(next) > 0 }) // the lease of who waits is 30 s
		if got := <-next; got.err != nil || got.lease.Token() <= lease.Token() || got.lease.Unlock(t.Context()) != nil {
			t.Fatalf("%+v", got)
		}
	})
}
