package fairlock

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// silent is a client of a server that takes connections and says nothing. It counts them.
func silent(t *testing.T, patience time.Duration) (rdb *redis.Client, dialled *atomic.Int32) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	dialled = new(atomic.Int32)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			conns = append(conns, conn)
		}
	}()
	rdb = redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ReadTimeout: patience, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = listener.Close()
		<-over
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return rdb, dialled
}

func TestCallsThatComeTogetherToASilentServerShareTheFirstLook(t *testing.T) {
	rdb, dialled := silent(t, 200*time.Millisecond)
	l := New(rdb)
	defer l.Close()
	const calls = 40
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if lease, err := l.TryLock(context.Background(), "x"); err == nil {
				t.Errorf("it has the lock: %v", lease)
			}
		})
	}
	all.Wait()
	if n := dialled.Load(); n > calls {
		t.Errorf("%d connections for two looks", n)
	}
}

func TestCallsThatWaitForTheFirstLookEndWithTheLocker(t *testing.T) {
	rdb, dialled := silent(t, 500*time.Millisecond)
	l := New(rdb)
	const calls = 10
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := l.Lock(context.Background(), "x")
			ended <- err
		}()
	}
	for dialled.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	before, refused := dialled.Load(), 0
	for range calls {
		if err := <-ended; errors.Is(err, ErrClosed) {
			refused++
		}
	}
	if refused < calls-1 { // one of them was looking
		t.Errorf("%d of %d say that the Locker is closed", refused, calls)
	}
	if after := dialled.Load(); after != before {
		t.Errorf("%d connections after Close", after-before)
	}
}

func TestACallWhoseContextEndsDuringTheFirstLookSaysForHowLongItWaited(t *testing.T) {
	rdb, _ := silent(t, time.Second)
	l := New(rdb)
	defer l.Close()
	for name, call := range map[string]func(context.Context) error{
		"Lock":    func(ctx context.Context) error { _, err := l.Lock(ctx, "x"); return err },
		"TryLock": func(ctx context.Context) error { _, err := l.TryLock(ctx, "x"); return err },
		"LockAll": func(ctx context.Context) error { _, err := l.LockAll(ctx, []string{"x", "y"}); return err },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err := call(ctx)
		cancel()
		if wait := new(WaitError); !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
