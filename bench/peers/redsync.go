package peers

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncPeer polls at redsync's default, 50 to 250 ms at random, but does not give up after 32
// attempts. redsyncAuto is the same on a client that batches.
var (
	redsyncPeer = Peer{
		Name: "redsync", Server: Redis, Module: "github.com/go-redsync/redsync/v4", Requests: append([]string{"set"}, scripted...),
		Cannot: map[string]string{"leases": "does not renew: that is left to its user"},
		Most:   map[string]Limit{"waiters": {10_000, pollsTooMuch}, "handover": {2_000, pollsTooMuch}, "burst": {2_000, pollsTooMuch}},
		Open:   func(c Config) (Locker, error) { return newRedsync(c, client(c)), nil },
		About:  "one pool, its default delays, no end of attempts; a line of none where the workload has one: TryLock",
	}
	redsyncAuto = Peer{
		Name: "redsync +auto", Server: Redis, Module: "github.com/go-redsync/redsync/v4", Requests: append([]string{"set"}, scripted...),
		Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			rdb, err := pipelined(c)
			return newRedsync(c, rdb), err
		},
		About: "on go-redis' AutoPipeline, default options",
	}
)

type redsyncLocker struct {
	rdb   redis.UniversalClient
	sync  *redsync.Redsync
	lease time.Duration
}

func newRedsync(c Config, rdb redis.UniversalClient) *redsyncLocker {
	return &redsyncLocker{rdb: rdb, sync: redsync.New(goredis.NewPool(rdb)), lease: c.Lease}
}

// Lock makes a mutex for each call, as redsync demands.
func (l *redsyncLocker) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	options := []redsync.Option{redsync.WithExpiry(l.lease), redsync.WithTries(math.MaxInt32)}
	if queued != nil {
		options = append(options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			queued() // redsync asks for the delay only after a refusal
			return time.Duration(50+rand.Intn(200)) * time.Millisecond
		}))
	}
	m := l.sync.NewMutex(name, options...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHeld{m}, nil
}

// Try asks once.
func (l *redsyncLocker) Try(ctx context.Context, name string, _ int) (Lock, error) {
	m := l.sync.NewMutex(name, redsync.WithExpiry(l.lease))
	err := m.TryLockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return nil, ErrRefused
	}
	return redsyncHeld{m}, err
}

// Close closes the client.
func (l *redsyncLocker) Close() error { return l.rdb.Close() }

type redsyncHeld struct{ mutex *redsync.Mutex }

// Unlock releases.
func (h redsyncHeld) Unlock(ctx context.Context) error {
	_, err := h.mutex.UnlockContext(ctx)
	return err
}
