package snippets_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

var (
	errBusy = errors.New("somebody else is at it")
	errLost = errors.New("somebody else may be at it")
)

// job is what is done under a lock, in two parts.
type job struct{ done []string }

func (j *job) part(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		j.done = append(j.done, name)
		return ctx.Err()
	}
}

// alike plays both sides of a chapter: each does its job, and gives the lock back.
func alike(t *testing.T, theirs, ours func(work, more func(context.Context) error) error) {
	t.Helper()
	for side, play := range map[string]func(work, more func(context.Context) error) error{"theirs": theirs, "ours": ours} {
		for range 2 {
			var j job
			if err := play(j.part("work"), j.part("more")); err != nil || len(j.done) != 2 {
				t.Errorf("%s: did %q: %v", side, j.done, err)
			}
		}
	}
}

func TestComingFromRedislock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	locker, ctx := fairlock.New(rdb), t.Context()
	defer locker.Close()
	theirs := func(work, more func(context.Context) error) error {
		//guide:coming-from.md
		lock, err := redislock.Obtain(ctx, rdb, "order:42", 30*time.Second, &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
			Metadata:      "web-1",
		})
		if errors.Is(err, redislock.ErrNotObtained) {
			return errBusy
		}
		if err != nil {
			return err
		}
		defer lock.Release(ctx)
		if err := work(ctx); err != nil {
			return err
		}
		if err := lock.Refresh(ctx, 30*time.Second, nil); err != nil { // not ours any more, or nobody knows
			return err
		}
		return more(ctx)
		//guide:end
	}
	ours := func(work, more func(context.Context) error) error {
		//guide:coming-from.md
		lease, err := locker.Lock(ctx, "order:42", fairlock.WaitAtMost(30*time.Second), fairlock.Note("web-1"))
		if errors.Is(err, fairlock.ErrHeld) {
			return errBusy
		}
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		if err := work(lease.Context()); err != nil { // ends when the lock is lost
			return err
		}
		return more(lease.Context()) // nothing to refresh
		//guide:end
	}
	alike(t, theirs, ours)
}

func TestWhatTheGuideSaysOfRedislockIsSo(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	held, err := redislock.Obtain(ctx, rdb, "order:42", time.Minute, nil)
	must(t, err)
	if _, err := redislock.Obtain(ctx, rdb, "order:42", time.Minute, nil); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("without a strategy it does not try once: %v", err)
	}
	patient := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
	_, err = redislock.Obtain(ctx, rdb, "order:42", 100*time.Millisecond, patient)
	// Or its last try is cut short by the end of the ttl.
	if !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline it does not give up after the ttl: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := held.Release(over); !errors.Is(err, context.Canceled) || rdb.Exists(ctx, "order:42").Val() != 1 {
		t.Errorf("Release with a cancelled context: %v", err)
	}
	rdb.Del(ctx, "order:42")
	if err := held.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
		t.Errorf("Release of what is not held: %v", err)
	}
	sees(t, rdb, "order:42", func() { _, err = redislock.Obtain(ctx, rdb, "order:42", time.Minute, nil) })
	must(t, err)
}

// sees checks that a lock of Fairlock's is free although somebody else's of that name is held.
func sees(t *testing.T, rdb *redis.Client, name string, takeTheirs func()) {
	t.Helper()
	locker := fairlock.New(rdb)
	defer locker.Close()
	takeTheirs()
	lease, err := locker.TryLock(t.Context(), name)
	must(t, err)
	must(t, lease.Unlock(t.Context()))
}

func TestAContextThatHasEndedUnlocks(t *testing.T) {
	locker := tryOut(t)
	lease := take(t, locker, "order:42")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, lease.Unlock(over))
	take(t, locker, "order:42")
}

func TestComingFromRedsync(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	locker, ctx := fairlock.New(rdb), t.Context()
	defer locker.Close()
	theirs := func(work, more func(context.Context) error) error {
		//guide:coming-from.md
		mutex := redsync.New(goredis.NewPool(rdb)).NewMutex("order:42", redsync.WithExpiry(30*time.Second))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		defer mutex.UnlockContext(ctx)
		if err := work(ctx); err != nil {
			return err
		}
		if ok, err := mutex.ExtendContext(ctx); err != nil || !ok {
			return errors.Join(errLost, err)
		}
		return more(ctx)
		//guide:end
	}
	ours := func(work, more func(context.Context) error) error {
		//guide:coming-from.md
		lease, err := locker.Lock(ctx, "order:42")
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		if err := work(lease.Context()); err != nil {
			return err
		}
		return more(lease.Context())
		//guide:end
	}
	alike(t, theirs, ours)
}

func TestWhatTheGuideSaysOfRedsyncIsSo(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	sync := redsync.New(goredis.NewPool(rdb))
	held, began := sync.NewMutex("order:42"), time.Now()
	must(t, held.LockContext(ctx))
	ttl := rdb.PTTL(ctx, "order:42").Val()
	if since := time.Since(began); ttl > 8*time.Second || ttl+since < 7*time.Second {
		t.Errorf("after %v it is held for %v more", since, ttl)
	}
	impatient := sync.NewMutex("order:42", redsync.WithTries(2), redsync.WithRetryDelay(time.Millisecond))
	if err := impatient.LockContext(ctx); !errors.As(err, new(*redsync.ErrTaken)) {
		t.Errorf("after its tries: %v", err)
	}
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := sync.NewMutex("order:42").LockContext(soon); !errors.Is(err, redsync.ErrFailed) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its context: %v", err)
	}
	rdb.Del(ctx, "order:42")
	if ok, err := held.UnlockContext(ctx); ok || !errors.Is(err, redsync.ErrLockAlreadyExpired) {
		t.Errorf("Unlock of what has expired: %v, %v", ok, err)
	}
	sees(t, rdb, "order:42", func() { must(t, sync.NewMutex("order:42").LockContext(ctx)) })
}

func TestATryOfRedsyncWaitsForANodeThatHangsAsTheGuideSays(t *testing.T) {
	server := redistest.Start(t)
	server.Pause()
	const hangs = 3 * time.Second
	try := func(obeys bool) time.Duration {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: obeys, ReadTimeout: hangs, MaxRetries: -1})
		began := time.Now()
		mutex := redsync.New(goredis.NewPool(rdb)).NewMutex("order:42", redsync.WithTries(1), redsync.WithExpiry(2*hangs))
		if mutex.Lock() == nil {
			t.Error("a node that hangs gave the lock")
		}
		took := time.Since(began)
		must(t, rdb.Close())
		return took
	}
	if some, all := try(true), try(false); some < 100*time.Millisecond || all < hangs || some >= all {
		t.Errorf("with ContextTimeoutEnabled %v, without %v", some, all)
	}
}

func TestAWaitThatEndsTellsWhyAndWhere(t *testing.T) {
	locker := tryOut(t)
	take(t, locker, "order:42")
	queues(t, locker, "order:42")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := locker.Lock(ctx, "order:42", fairlock.OnQueued(func(int) { cancel() }))
	var wait *fairlock.WaitError
	if !errors.As(err, &wait) || wait.Position != 2 || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestComingFromRedisson(t *testing.T) {
	locker, ctx := tryOut(t), t.Context()
	ours := func(work func(context.Context) error) error {
		//guide:coming-from.md
		lease, err := locker.Lock(ctx, "order:42", fairlock.WaitAtMost(2*time.Second), fairlock.LeaseFor(30*time.Second))
		if errors.Is(err, fairlock.ErrHeld) {
			return errBusy
		}
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		return work(lease.Context())
		//guide:end
	}
	var j job
	must(t, ours(j.part("work")))
	depth := 0
	report := func(d int) error {
		depth = d
		return nil
	}
	nested := func() error {
		//guide:coming-from.md
		return locker.Do(ctx, "order:42", func(ctx context.Context, _ *fairlock.Lease) error {
			return locker.Do(ctx, "order:42", func(_ context.Context, inner *fairlock.Lease) error {
				return report(inner.Depth()) // 2
			})
		})
		//guide:end
	}
	must(t, nested())
	if len(j.done) != 1 || depth != 2 {
		t.Errorf("did %q, to a depth of %d", j.done, depth)
	}
}
