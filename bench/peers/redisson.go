package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// redissonPeer is the algorithm of Redisson's fair lock in Go: the same keys, scripts with the same
// calls, a subscription for each waiter, and the same waits. Only the speed of Java is missing.
var redissonPeer = Peer{
	Name: "Redisson's", Server: Redis, Requests: append([]string{"unlink"}, scripted...),
	Most: map[string]Limit{
		"handover": {4 * subscriptions, fewSubscriptions},
		"waiters":  {1_000, fewSubscriptions},
		"burst":    {4 * subscriptions, fewSubscriptions},
	},
	Open: func(c Config) (Locker, error) { return newRedisson(c), nil },
	About: "Redisson's fair-lock algorithm in Go, written from its behaviour: enqueue, SUBSCRIBE per waiter, try again, wait as long " +
		"as told; chained deadlines of 5 minutes; the unlock latch; renewal in batches of 100; a line of none where the workload " +
		"has one: tryLock",
}

const (
	fairLockWait = 5 * time.Minute  // Redisson's fairLockWaitTimeout: how long a dead waiter keeps its place
	latchFor     = 18 * time.Second // of 16 to 20
	renewAtOnce  = 100              // lockWatchdogBatchSize

	fewSubscriptions = "its client has room for 250 subscriptions (50 connections of 5), and each waiter needs one"
)

var (
	//go:embed redisson/sweep.lua
	redissonSweep string
	//go:embed redisson/acquire.lua
	redissonAcquire string
	//go:embed redisson/try.lua
	redissonTry string
	//go:embed redisson/unlock.lua
	redissonUnlock string
	//go:embed redisson/cancel.lua
	redissonCancel string
	//go:embed redisson/renew.lua
	redissonRenew string

	rsAcquire = redis.NewScript(redissonSweep + redissonAcquire)
	rsTry     = redis.NewScript(redissonSweep + redissonTry)
	rsUnlock  = redis.NewScript(redissonSweep + redissonUnlock)
	rsCancel  = redis.NewScript(redissonCancel)
	rsRenew   = redis.NewScript(redissonRenew)
)

// redisson does what Redisson calls a client.
type redisson struct {
	rdb     *redis.Client
	id      string
	lease   time.Duration
	threads atomic.Int64
	latches latches
	stop    context.CancelFunc

	mu   sync.Mutex // guards held
	held map[redissonHold]struct{}
}

// redissonHold is a lock held by one of the client's threads.
type redissonHold struct {
	client      *redisson
	name, owner string
}

func newRedisson(c Config) *redisson {
	ctx, stop := context.WithCancel(context.Background())
	rdb := client(c, func(o *redis.Options) { o.PoolSize = 64 }) // its connectionPoolSize
	r := &redisson{rdb: rdb, id: uuid.NewString(), lease: c.Lease, stop: stop, held: map[redissonHold]struct{}{}}
	r.latches.rdb = rdb
	go r.watch(ctx)
	return r
}

func (r *redisson) thread() string { return r.id + ":" + strconv.FormatInt(r.threads.Add(1), 10) }

// redissonKeys returns the keys of the lock, the queue and the deadlines, and the common start of
// the channels.
func redissonKeys(name string) []string {
	return []string{
		name, "redisson_lock_queue:{" + name + "}", "redisson_lock_timeout:{" + name + "}", "redisson_lock__channel:{" + name + "}",
	}
}

// Lock is RedissonLock.lock. It asks, subscribes and asks again. Then it asks whenever a message
// arrives, or when the time that the server gave is over.
func (r *redisson) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	hold := redissonHold{r, name, r.thread()}
	if acquired, _, err := r.acquire(ctx, hold); acquired || err != nil {
		return r.keep(hold), err
	}
	if queued != nil {
		queued()
	}
	channel := redissonKeys(name)[3] + ":" + hold.owner
	latch, err := r.latches.subscribe(ctx, channel)
	if err != nil {
		return nil, err // leaves its place behind, as Redisson's lock() does
	}
	defer func() { go r.latches.unsubscribe(latch, channel) }()
	for {
		acquired, ttl, err := r.acquire(ctx, hold)
		if acquired || err != nil {
			return r.keep(hold), err
		}
		if err := latch.wait(ctx, ttl); err != nil {
			return nil, errors.Join(err, r.leave(ctx, hold))
		}
	}
}

// leave takes a waiter out of the line.
func (r *redisson) leave(ctx context.Context, h redissonHold) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := rsCancel.Run(ctx, r.rdb, redissonKeys(h.name)[1:3], h.owner, fairLockWait.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func (r *redisson) acquire(ctx context.Context, h redissonHold) (acquired bool, ttl time.Duration, err error) {
	ms, err := rsAcquire.Run(ctx, r.rdb, redissonKeys(h.name)[:3],
		r.lease.Milliseconds(), h.owner, fairLockWait.Milliseconds(), time.Now().UnixMilli()).Int64()
	if errors.Is(err, redis.Nil) {
		return true, 0, nil
	}
	return false, time.Duration(ms) * time.Millisecond, err
}

// Try is RedissonLock.tryLock.
func (r *redisson) Try(ctx context.Context, name string, _ int) (Lock, error) {
	hold := redissonHold{r, name, r.thread()}
	err := rsTry.Run(ctx, r.rdb, redissonKeys(name)[:3],
		r.lease.Milliseconds(), hold.owner, time.Now().UnixMilli(), fairLockWait.Milliseconds()).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return r.keep(hold), nil
	case err != nil:
		return nil, err
	}
	return nil, ErrRefused
}

// keep makes the watchdog renew the hold.
func (r *redisson) keep(h redissonHold) Lock {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h] = struct{}{}
	return h
}

func (r *redisson) forget(h redissonHold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, h)
}

// Unlock releases, and deletes the latch without waiting. For so small a key UNLINK is the same as
// DEL, and the server's statistics tell this UNLINK from the DEL of the script.
func (h redissonHold) Unlock(ctx context.Context) error {
	keys := append(redissonKeys(h.name), "redisson_unlock_latch:{"+h.name+"}:"+uuid.NewString())
	h.client.forget(h)
	err := rsUnlock.Run(ctx, h.client.rdb, keys, h.client.lease.Milliseconds(), h.owner, time.Now().UnixMilli(), latchFor.Milliseconds()).Err()
	go h.client.rdb.Unlink(context.WithoutCancel(ctx), keys[4])
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("%s is not held by %s", h.name, h.owner)
	}
	return err
}

// watch renews all holds in batches, every third of the lease.
func (r *redisson) watch(ctx context.Context) {
	for tick := time.NewTicker(r.lease / 3); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		var keys []string
		owners := []any{r.lease.Milliseconds()}
		renew := func() {
			_ = rsRenew.Run(ctx, r.rdb, keys, owners...).Err() // the next tick tries again, as in Redisson
			keys, owners = keys[:0], owners[:1]
		}
		for _, h := range r.holds() {
			keys, owners = append(keys, h.name), append(owners, h.owner)
			if len(keys) == renewAtOnce {
				renew()
			}
		}
		if len(keys) > 0 {
			renew()
		}
	}
}

func (r *redisson) holds() []redissonHold {
	r.mu.Lock()
	defer r.mu.Unlock()
	holds := make([]redissonHold, 0, len(r.held))
	for h := range r.held {
		holds = append(holds, h)
	}
	return holds
}

// Close ends the watchdog, the subscriptions and the client.
func (r *redisson) Close() error {
	r.stop()
	r.latches.close()
	return r.rdb.Close()
}
