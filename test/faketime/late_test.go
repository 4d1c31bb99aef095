package faketime

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/engine"
)

// The process stands still from 8 s on. When it goes on at 29 s, it sees the answer to what it sent
// after 8 s before it sees the time: its trust ended after 27 s, and the server keeps the lock for
// 38 s. The user has the margin of 3 s to stop.
func TestALockThatIsLostAsALateAnswerProlongsItIsGivenBack(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		began := time.Now()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: s.mini.Dial})
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(lateReplies{began, 7 * time.Second, 29 * time.Second})
		a := s.kind(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)), engine.WithAlarm(func() {
			if time.Since(began) > 8*time.Second {
				time.Sleep(time.Until(began.Add(35 * time.Second)))
			}
		}))
		defer func() { _ = a.Close() }()
		b, _ := s.client()
		lease := s.lock(a)
		time.Sleep(31 * time.Second)
		if _, err := b.TryLock(context.Background(), "x"); !errors.Is(err, fairlock.ErrHeld) {
			t.Errorf("as the user may be stopping: %v", err)
		}
		time.Sleep(2 * time.Second)
		free, err := b.TryLock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Err(); !errors.Is(err, fairlock.ErrLost) {
			t.Error(err)
		}
		_ = free.Unlock(context.Background())
	})
}

// The server gives the lock to its holder for an hour, and nothing of that comes back.
func TestALockWhoseExtendWasNeverAnsweredIsGivenBackAfterALongOutage(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		a, network := s.client()
		b, _ := s.client()
		lease := s.lock(a)
		time.Sleep(11 * time.Second) // the server has the script of a renewal
		network.loseReplies()
		extended := make(chan error)
		go func() { extended <- lease.Extend(context.Background(), time.Hour) }()
		synctest.Wait() // the server has it
		network.loseRequests()
		if err := <-extended; !errors.Is(err, fairlock.ErrLost) {
			s.Errorf("Extend says %v", err)
		}
		time.Sleep(5 * time.Minute)
		s.tries(b)
		network.resume()
		time.Sleep(30 * time.Second)
		free, err := b.TryLock(context.Background(), "x")
		if err != nil {
			s.Fatal(err)
		}
		_ = free.Unlock(context.Background())
	})
}

// The answer comes when the lease is over, so nobody is told that the lock is free.
func TestAWaiterWhoseGrantCameTooLateTriesAgainSoon(t *testing.T) {
	ofBothKinds(t, func(s lossy) {
		began := time.Now()
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: s.mini.Dial})
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(lateReplies{began, time.Second, 1300 * time.Millisecond})
		b := s.kind(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
		defer func() { _ = b.Close() }()
		a, _ := s.client()
		lease := s.lock(a)
		took := make(chan time.Duration)
		go func() {
			next, err := b.Lock(context.Background(), "x", fairlock.LeaseFor(200*time.Millisecond))
			if err != nil {
				s.Error(err)
			}
			_ = next.Unlock(context.Background())
			took <- time.Since(began)
		}()
		time.Sleep(time.Second)
		s.unlock(lease)
		if d := <-took; d > 2*time.Second {
			s.Errorf("it waited %v beside a free lock", d-time.Second)
		}
	})
}

// lateReplies are those to what is sent from a time on. They come at another.
type lateReplies struct {
	began      time.Time
	from, come time.Duration
}

func (lateReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (lateReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l lateReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		sent := time.Since(l.began)
		err := next(ctx, cmd)
		if sent >= l.from && sent < l.come {
			time.Sleep(time.Until(l.began.Add(l.come)))
		}
		return err
	}
}

func TestADoWhoseFunctionHasWaitedInVainForItsOwnUnlockWaitsNoLonger(t *testing.T) {
	inFakeTime(t, func(b *bubble) {
		l, network := b.client()
		var began time.Time
		err := l.Do(b.Context(), "x", func(ctx context.Context, lease *fairlock.Lease) error {
			network.stop()
			began = time.Now()
			return lease.Unlock(ctx)
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestADoAllWhoseFunctionHasWaitedInVainForItsOwnUnlockWaitsNoLonger(t *testing.T) {
	for _, names := range [][]string{{"x"}, {"x", "y"}} {
		inFakeTime(t, func(b *bubble) {
			l, network := b.client()
			var began time.Time
			err := l.DoAll(b.Context(), names, func(ctx context.Context, leases *fairlock.Leases) error {
				network.stop()
				began = time.Now()
				return leases.Unlock(ctx)
			})
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
				t.Errorf("%d locks: %v after %v", len(names), err, took)
			}
		})
	}
}
