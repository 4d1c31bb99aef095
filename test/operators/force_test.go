package operators

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// exact is a Locker that forces an ownership by its token.
type exact interface {
	ForceToken(ctx context.Context, name string, token int64) error
}

func TestAForceOfATokenEndsThatOwnershipAndNoOther(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		for _, kind := range []world.Kind{world.Fair, world.Plain} {
			locker := kind(f.Direct)
			force := locker.(exact).ForceToken
			first, err := locker.Lock(f.Context(), "x")
			f.Must(err)
			f.Must(first.Unlock(f.Context()))
			lease, err := locker.Lock(f.Context(), "x")
			f.Must(err)
			for _, token := range []int64{0, first.Token(), lease.Token() + 1} {
				if err := force(f.Context(), "x", token); !errors.Is(err, fairlock.ErrNotHeld) {
					f.Errorf("token %d: %v", token, err)
				}
			}
			if err := force(f.Context(), "x", -1); !errors.Is(err, fairlock.ErrInvalid) {
				f.Errorf("token -1: %v", err)
			}
			f.Must(lease.Err())
			f.Must(force(f.Context(), "x", lease.Token()))
			if err := lease.Unlock(f.Context()); !errors.Is(err, fairlock.ErrLost) {
				f.Errorf("the Unlock of the forced: %v", err)
			}
			if err := force(f.Context(), "x", lease.Token()); !errors.Is(err, fairlock.ErrNotHeld) {
				f.Errorf("once more: %v", err)
			}
			f.Must(locker.Close())
		}
		f.Must(f.Direct.FlushAll(f.Context()).Err())
	})
}

// passing is a hook that has a lock pass on before every second script, while it is to do so.
type passing struct {
	redis.Hook
	scripts, times int
	passes         func()
}

func (p *passing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *passing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			if p.scripts++; p.scripts%2 == 0 && p.times > 0 {
				p.times--
				p.passes()
			}
		}
		return next(ctx, cmd)
	}
}

func (p *passing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ForceUnlock looks who has the lock, and then ends that ownership.
func TestAForceEndsWhoeverHasALockThatPassesOnMeanwhile(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		for _, kind := range []world.Kind{world.Fair, world.Plain} {
			options := *f.Direct.Options()
			rdb := redis.NewClient(&options)
			hook := new(passing)
			rdb.AddHook(hook)
			holders, admin := kind(f.Direct), kind(rdb)
			take := func() *fairlock.Lease {
				lease, err := holders.Lock(f.Context(), "x")
				f.Must(err)
				return lease
			}
			lease := take()
			f.Must(admin.ForceUnlock(f.Context(), "x")) // makes contact and loads the scripts
			_ = lease.Unlock(f.Context())
			passed := 0
			hook.passes = func() {
				f.Must(lease.Unlock(f.Context()))
				lease = take()
				passed++
			}

			lease, hook.scripts, hook.times = take(), 0, 3
			f.Must(admin.ForceUnlock(f.Context(), "x"))
			if err := lease.Unlock(f.Context()); !errors.Is(err, fairlock.ErrLost) || passed != 3 {
				f.Errorf("after %d passes, the Unlock of the last: %v", passed, err)
			}

			lease, hook.scripts, hook.times = take(), 0, 1000
			if err := admin.ForceUnlock(f.Context(), "x"); !errors.Is(err, fairlock.ErrNotHeld) {
				f.Errorf("a lock that always passes on: %v", err)
			}
			f.Must(lease.Unlock(f.Context()))
			f.Must(admin.Close())
			f.Must(rdb.Close())
			f.Must(holders.Close())
		}
		f.Must(f.Direct.FlushAll(f.Context()).Err())
	})
}
