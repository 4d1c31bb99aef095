package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ledger has the customers' finished jobs, in the order in which they were done.
type ledger struct {
	rdb    *redis.Client
	prefix string
}

func (l ledger) key(customer string) string { return fmt.Sprintf("%s:ledger:{%s}", l.prefix, customer) }

// next returns the number of the customer's first job that is not done.
func (l ledger) next(ctx context.Context, customer string) (int, error) {
	n, err := l.rdb.LLen(ctx, l.key(customer)).Result()
	return int(n) + 1, err
}

// enter writes down that a job is done. But if a worker with a larger token has written already,
// enter returns an error: then the caller has slept through the end of its lease, and what it
// believes is out of date. If the job has an entry, enter does nothing: the worker before, whose
// token was the largest until now, may have written it after the caller read its number.
func (l ledger) enter(ctx context.Context, customer string, number int, worker string, token int64) error {
	keys := []string{l.key(customer), l.key(customer) + ":fence"}
	return fenced.Run(ctx, l.rdb, keys, token, fmt.Sprintf("%d %s", number, worker), number).Err()
}

// fenced takes as KEYS the ledger and the largest token that has written to it, and as ARGV a
// token, an entry and the entry's number.
var fenced = redis.NewScript(`
	if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then
		return redis.error_reply('STALE somebody with a larger token has written')
	end
	if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
	redis.call('SET', KEYS[2], ARGV[1], 'EX', 600)
	redis.call('RPUSH', KEYS[1], ARGV[2])
	return redis.call('EXPIRE', KEYS[1], 600)`)

// all returns all entries of the customer.
func (l ledger) all(ctx context.Context, customer string) ([]string, error) {
	return l.rdb.LRange(ctx, l.key(customer), 0, -1).Result()
}
