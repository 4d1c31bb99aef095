package faketime

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/engine"
)

// The process stands still from 8 s on. When it goes on at 29 s, it sees the answer to what it sent
// after 8 s before it sees the time: its trust ended after 27 s, and the server keeps the lock for
// 38 s.
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
		time.Sleep(30 * time.Second)
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
