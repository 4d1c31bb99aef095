package snippets_test

import (
	"context"
	"testing"

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
