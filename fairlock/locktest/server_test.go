package locktest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// site is a server that can be away: the embedded one, or a real one.
type site struct {
	client        func() *redis.Client
	pause, resume func() // of a server that stands still
	stop, start   func() // of a server that is gone
}

// onBoth runs a test of what the locks of either kind do when the server is away. What it says of
// the embedded server is true of a real one.
func onBoth(t *testing.T, test func(t *testing.T, s site, locker fairlock.Interface)) {
	t.Helper()
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	short := fairlock.WithLease(2 * time.Second)
	both := func(t *testing.T, s func(t *testing.T) site) {
		t.Helper()
		t.Run("fair", func(t *testing.T) {
			t.Parallel()
			s := s(t)
			locker := fairlock.New(s.client(), quiet, short)
			defer locker.Close()
			test(t, s, locker)
		})
		t.Run("plain", func(t *testing.T) {
			t.Parallel()
			s := s(t)
			locker := reentrant.New(s.client(), quiet, short)
			defer locker.Close()
			test(t, s, locker)
		})
	}
	t.Run("embedded", func(t *testing.T) {
		both(t, func(t *testing.T) site {
			s := locktest.New(t).Server
			return site{s.Client, s.Pause, s.Resume, s.Stop, s.Resume}
		})
	})
	t.Run("real", func(t *testing.T) {
		both(t, func(t *testing.T) site {
			s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			return site{func() *redis.Client { return s.Client(t) }, s.Pause, s.Resume, s.Kill, s.Restart}
		})
	})
}

func TestAPausedServerAnswersNobodyAndGoesOnWhenItResumes(t *testing.T) {
	onBoth(t, func(t *testing.T, s site, locker fairlock.Interface) {
		lease := lock(t, locker, "x")
		s.pause()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := locker.Lock(ctx, "y"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		<-lease.Done()
		if !isOver(lease) {
			t.Errorf("the Lease says %v", lease.Err())
		}
		s.resume()
		unlock(t, lock(t, locker, "x"))
		unlock(t, lock(t, locker, "y"))
	})
}

func TestAStoppedServerRefusesConnectionsAndKeepsItsData(t *testing.T) {
	onBoth(t, func(t *testing.T, s site, locker fairlock.Interface) {
		rdb := s.client()
		if err := rdb.Set(t.Context(), "kept", "yes", 0).Err(); err != nil {
			t.Fatal(err)
		}
		lease := lock(t, locker, "x")
		s.stop()
		if _, err := locker.Lock(t.Context(), "y"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		<-lease.Done()
		if !isOver(lease) {
			t.Errorf("the Lease says %v", lease.Err())
		}
		s.start()
		unlock(t, lock(t, locker, "x"))
		unlock(t, lock(t, locker, "y"))
		if got := rdb.Get(t.Context(), "kept").Val(); got != "yes" {
			t.Errorf("kept is %q", got)
		}
	})
}

func TestWhoWaitsGoesOnWaitingWhileTheServerIsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, s site, locker fairlock.Interface) {
		for _, away := range []struct{ ends, begins func() }{{s.pause, s.resume}, {s.stop, s.start}} {
			lease := lock(t, locker, "x", fairlock.LeaseFor(time.Hour))
			waits, has := make(chan struct{}), make(chan *fairlock.Lease, 1)
			once := sync.OnceFunc(func() { close(waits) })
			go func() { has <- lock(t, locker, "x", fairlock.OnQueued(func(int) { once() })) }()
			<-waits
			away.ends()
			away.begins()
			unlock(t, lease)
			unlock(t, <-has)
		}
	})
}

func TestWhatWasSentToAPausedServerIsExecutedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := locktest.New(t).Server
		rdb := server.Client()
		rdb.Ping(t.Context()) // it is connected
		server.Pause()
		if err := rdb.Incr(t.Context(), "n").Err(); err == nil {
			t.Error("it was answered")
		}
		server.Resume()
		synctest.Wait()
		if n, err := server.Client().Get(t.Context(), "n").Int(); err != nil || n < 1 {
			t.Errorf("n is %d: %v", n, err)
		}
	})
}

func TestAWaiterIsServedInItsTurnAfterAnHourWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		locks.HoldElsewhere("x")
		waits := make(chan *fairlock.Lease, 1)
		go func() { waits <- lock(t, locks, "x") }()
		locks.AwaitWaiters("x", 1)
		for _, away := range []func(){locks.Server.Pause, locks.Server.Stop} {
			away()
			time.Sleep(time.Hour)
		}
		locks.Server.Resume()
		unlock(t, <-waits)
	})
}

func TestAReadEndsAtItsDeadlineAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:0", Dialer: locks.Server.Client().Options().Dialer, ReadTimeout: 7 * time.Second, MaxRetries: -1,
		})
		defer rdb.Close()
		rdb.Ping(t.Context())
		locks.Server.Pause()
		began := time.Now()
		if err := rdb.Ping(t.Context()).Err(); err == nil || time.Since(began) != 7*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// go-redis may be making a subscription just then, with a mutex locked that its Close waits for.
func TestALockerCanBeShutDownInABubbleWhileItsServerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locktest.New(t, fairlock.WithLease(3*time.Second))
		other := l.Elsewhere()
		lease, err := other.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := other.Lock(context.Background(), "a")
			waits <- err
		}()
		l.AwaitWaiters("a", 1)
		time.Sleep(time.Second)
		l.Server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := other.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown says %v", err)
		}
		if err := <-waits; !errors.Is(err, fairlock.ErrClosed) {
			t.Errorf("the waiter was told %v", err)
		}
		if err := lease.Err(); err == nil {
			t.Error("the Lease goes on")
		}
	})
}
