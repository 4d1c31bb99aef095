package snippets_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/redistest"
)

func TestALockInJavasLine(t *testing.T) {
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	worked := false
	work := func(ctx context.Context) error {
		worked = true
		return ctx.Err()
	}
	must(t, func() error {
		//guide:redisson.md
		locker := redisson.New(rdb) // getFairLock; redisson.NewPlain: getLock
		defer locker.Close()

		return locker.Do(ctx, "order:42", func(ctx context.Context, _ *redisson.Lease) error {
			return work(ctx)
		})
		//guide:end
	}())
	if !worked {
		t.Error("nothing was done")
	}
}

func TestBothLocksOfAFleet(t *testing.T) {
	rdb, ctx := redistest.Start(t).Client(t), t.Context()
	java, ours := redisson.New(rdb), fairlock.New(rdb)
	defer java.Close()
	defer ours.Close()
	var token int64
	store := func(ctx context.Context, with int64) error {
		token = with
		return ctx.Err()
	}
	must(t, func() error {
		//guide:coming-from.md
		return java.Do(ctx, "order:42", func(ctx context.Context, _ *redisson.Lease) error {
			return ours.Do(ctx, "order:42", func(ctx context.Context, lease *fairlock.Lease) error {
				return store(ctx, lease.Token())
			})
		})
		//guide:end
	}())
	if token == 0 {
		t.Error("nothing was stored")
	}
}

func TestTheRightsInJavasLineThatTheGuideTellsAreEnough(t *testing.T) {
	s := redistest.Start(t)
	for _, newLocker := range []func(redis.UniversalClient, ...redisson.Option) *redisson.Locker{redisson.New, redisson.NewPlain} {
		locker := newLocker(restricted(t, s, inJavasLine), redisson.WithWatchdogTimeout(renewedSoon))
		exercises(t, locker)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // it may leave a mark
		if lease, err := locker.Lock(ctx, "order:42"); err == nil {
			must(t, lease.Unlock(t.Context()))
		}
		cancel()
		_, err := locker.Inspect(t.Context(), "order:42")
		must(t, errors.Join(err, locker.Close()))
	}
	listing := redisson.New(restricted(t, s, inJavasLine, "~*", "+scan"))
	defer listing.Close()
	take(t, listing, "order:1")
	for state, err := range listing.List(t.Context()) {
		if must(t, err); state.Name != "order:1" {
			t.Errorf("%+v", state)
		}
	}
	refused(t, s)
}
