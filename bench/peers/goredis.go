package peers

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// client returns a go-redis client as all of its users get it: with its defaults, except more
// patience with a pool that has thousands of callers.
func client(c Config, options ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: c.Addr, PoolTimeout: time.Minute}
	for _, option := range options {
		option(o)
	}
	return redis.NewClient(o)
}

// pool64 gives the client a pool of 64 connections, one for each goroutine of the workload keys.
func pool64(o *redis.Options) { o.PoolSize = 64 }

// obedient makes the client obey the deadlines of contexts.
func obedient(o *redis.Options) { o.ContextTimeoutEnabled = true }

// hurried gives each call of a Locker a context with a deadline, as callers with a request to
// answer do.
type hurried struct{ Locker }

// Lock has 5 s; so has the Unlock of what it returns.
func (h hurried) Lock(ctx context.Context, name string, queued func()) (Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lock, err := h.Locker.Lock(ctx, name, queued)
	if err != nil {
		return nil, err
	}
	return unlock(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return lock.Unlock(ctx)
	}), nil
}

// pipelined returns a client that batches concurrent requests with go-redis' AutoPipeliner. It is a
// drop-in: all the commands of a redis.UniversalClient go through it, except Do and subscriptions.
func pipelined(c Config) (redis.UniversalClient, error) {
	rdb := client(c)
	auto, err := rdb.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return wholeClient{auto, rdb}, nil
}

// wholeClient closes the client behind the AutoPipeliner, too.
type wholeClient struct {
	*redis.AutoPipeliner
	rdb *redis.Client
}

// Close closes the AutoPipeliner and the client.
func (w wholeClient) Close() error {
	_ = w.AutoPipeliner.Close() // the client fails what the AutoPipeliner still has
	return w.rdb.Close()
}

// unlock is a Lock made of a function.
type unlock func(ctx context.Context) error

// Unlock calls it.
func (u unlock) Unlock(ctx context.Context) error { return u(ctx) }
