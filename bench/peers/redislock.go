package peers

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockPeer polls every 100 ms, as in its README. redislockPool is the same on a client with
// more connections, redislockHurried also has deadlines, redislockAuto is on one that batches.
var (
	redislockPeer = Peer{
		Name: "redislock", Server: Redis, Module: "github.com/bsm/redislock", Requests: scripted,
		Cannot: map[string]string{"leases": "does not renew: that is left to its user"},
		Most:   map[string]Limit{"waiters": {10_000, pollsTooMuch}, "handover": {2_000, pollsTooMuch}, "burst": {2_000, pollsTooMuch}},
		Open:   func(c Config) (Locker, error) { return newRedislock(c, client(c)), nil },
		About:  "LinearBackoff(100 ms), as in its README; a line of none where the workload has one: Obtain with NoRetry",
	}
	redislockPool = Peer{
		Name: "redislock 64 conns", Server: Redis, Module: "github.com/bsm/redislock", Requests: scripted, Only: []string{"keys"},
		Open:  func(c Config) (Locker, error) { return newRedislock(c, client(c, pool64)), nil },
		About: "on a client with PoolSize 64",
	}
	redislockHurried = Peer{
		Name: "redislock deadlines", Server: Redis, Module: "github.com/bsm/redislock", Requests: scripted, Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			return hurried{newRedislock(c, client(c, pool64, obedient))}, nil
		},
		About: "the same with ContextTimeoutEnabled, and a deadline of 5 s for each call",
	}
	redislockAuto = Peer{
		Name: "redislock +auto", Server: Redis, Module: "github.com/bsm/redislock", Requests: scripted, Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			rdb, err := pipelined(c)
			return newRedislock(c, rdb), err
		},
		About: "on go-redis' AutoPipeline, default options",
	}
)

const pollsTooMuch = "polls: so many waiters are more requests than the server can answer"

type redislockLocker struct {
	rdb    redis.UniversalClient
	client *redislock.Client
	lease  time.Duration
}

func newRedislock(c Config, rdb redis.UniversalClient) *redislockLocker {
	return &redislockLocker{rdb: rdb, client: redislock.New(rdb), lease: c.Lease}
}

// Lock sets a deadline: without a deadline redislock gives up after the lease.
func (l *redislockLocker) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	ctx, cancel := context.WithDeadline(ctx, time.Unix(math.MaxInt32, 0))
	defer cancel()
	return redislocked(l.client.Obtain(ctx, name, l.lease, &redislock.Options{RetryStrategy: every100ms(queued)}))
}

// Try asks once.
func (l *redislockLocker) Try(ctx context.Context, name string, _ int) (Lock, error) {
	lock, err := redislocked(l.client.Obtain(ctx, name, l.lease, nil))
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrRefused
	}
	return lock, err
}

// Close closes the client.
func (l *redislockLocker) Close() error { return l.rdb.Close() }

// every100ms is called only after a refusal, so the server has seen the call.
type every100ms func()

// NextBackoff returns the time until the next attempt.
func (queued every100ms) NextBackoff() time.Duration {
	if queued != nil {
		queued()
	}
	return 100 * time.Millisecond
}

type redislockHeld struct{ lock *redislock.Lock }

func redislocked(lock *redislock.Lock, err error) (Lock, error) {
	if err != nil {
		return nil, err
	}
	return redislockHeld{lock}, nil
}

// Unlock releases.
func (h redislockHeld) Unlock(ctx context.Context) error { return h.lock.Release(ctx) }
