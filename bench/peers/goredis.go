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
