package peers

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/reentrant"
)

// fair is the lock with a line, plain the lock without. fairPool is fair on a client with more
// connections, fairHurried one whose calls have deadlines, fairAuto on a client that batches.
var (
	fair = Peer{
		Name: "fairlock", Server: Redis, Requests: scripted,
		Open:  func(c Config) (Locker, error) { return newOurs(c, client(c), newFair), nil },
		About: "fairlock.New, defaults but for the lease",
	}
	plain = Peer{
		Name: "fairlock plain", Server: Redis, Requests: scripted,
		Open:  func(c Config) (Locker, error) { return newOurs(c, client(c), newPlain), nil },
		About: "reentrant.New, defaults but for the lease; no order is promised",
	}
	fairPool = Peer{
		Name: "fairlock 64 conns", Server: Redis, Requests: scripted, Only: []string{"keys"},
		Open:  func(c Config) (Locker, error) { return newOurs(c, client(c, pool64), newFair), nil },
		About: "fairlock.New on a client with PoolSize 64; the default is 10 for each CPU",
	}
	fairHurried = Peer{
		Name: "fairlock deadlines", Server: Redis, Requests: scripted, Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			return hurried{newOurs(c, client(c, pool64, obedient), newFair)}, nil
		},
		About: "the same with ContextTimeoutEnabled, and a deadline of 5 s for each call",
	}
	fairAuto = Peer{
		Name: "fairlock +auto", Server: Redis, Requests: scripted, Only: []string{"keys"},
		Open: func(c Config) (Locker, error) {
			rdb, err := pipelined(c)
			return newOurs(c, rdb, newFair), err
		},
		About: "fairlock.New on go-redis' AutoPipeline, default options",
	}
)

func newFair(rdb redis.UniversalClient, o ...fairlock.Option) fairlock.Interface {
	return fairlock.New(rdb, o...)
}

func newPlain(rdb redis.UniversalClient, o ...fairlock.Option) fairlock.Interface {
	return reentrant.New(rdb, o...)
}

// ours is a Locker, fair or plain.
type ours struct {
	rdb    redis.UniversalClient
	locker fairlock.Interface
}

func newOurs(c Config, rdb redis.UniversalClient, kind func(redis.UniversalClient, ...fairlock.Option) fairlock.Interface) *ours {
	return &ours{rdb: rdb, locker: kind(rdb, fairlock.WithLease(c.Lease))}
}

// Lock passes OnQueued on only if queued is set, because a call of OnQueued wakes the caller once
// more.
func (l *ours) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	if queued == nil {
		return l.locker.Lock(ctx, name)
	}
	return l.locker.Lock(ctx, name, fairlock.OnQueued(func(int) { queued() }))
}

// Try sets the bound of the line.
func (l *ours) Try(ctx context.Context, name string, waiters int) (Lock, error) {
	lease, err := l.locker.Lock(ctx, name, fairlock.MaxWaiters(waiters))
	if errors.Is(err, fairlock.ErrQueueFull) {
		return nil, ErrRefused
	}
	return lease, err
}

// Close closes the Locker and the client.
func (l *ours) Close() error {
	return errors.Join(l.locker.Close(), l.rdb.Close())
}
