package peers

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// client is the go-redis client that all of its users get: its defaults, but for the patience with a pool that has thousands
// of callers.
func client(c Config, options ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: c.Addr, PoolTimeout: time.Minute}
	for _, option := range options {
		option(o)
	}
	return redis.NewClient(o)
}

// pipelined is client with go-redis' own batching of what is asked for at the same time. It is a drop-in: all the commands of
// a redis.UniversalClient, but for Do and subscriptions, go through it.
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

// Close ends both.
func (w wholeClient) Close() error {
	_ = w.AutoPipeliner.Close() // what it still has, the client fails
	return w.rdb.Close()
}

// unlock is a Lock made of a function.
type unlock func(ctx context.Context) error

// Unlock calls it.
func (u unlock) Unlock(ctx context.Context) error { return u(ctx) }
