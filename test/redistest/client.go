package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// FillPool has so many connections lie idle in a client's pool.
func FillPool(tb testing.TB, rdb *redis.Client, n int) {
	tb.Helper()
	var all []*redis.Conn
	for range n {
		c := rdb.Conn()
		if err := c.Ping(context.Background()).Err(); err != nil {
			tb.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		_ = c.Close() // it goes back to the pool
	}
}

// Calls is how often the server has executed a command.
func Calls(tb testing.TB, rdb *redis.Client, command string) int {
	tb.Helper()
	stats, err := rdb.Info(context.Background(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	_, after, ever := strings.Cut(stats, "cmdstat_"+command+":calls=")
	if !ever {
		return 0
	}
	text, _, _ := strings.Cut(after, ",")
	calls, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return calls
}

// Scripts is how many scripts the server has run.
func Scripts(tb testing.TB, rdb *redis.Client) int {
	tb.Helper()
	return Calls(tb, rdb, "eval") + Calls(tb, rdb, "evalsha")
}

// Settled returns a function that reports whether the server has run no script for a moment. A
// client that is killed or cut off amid its requests counts as blind: the server still runs what it
// has received, and sees no subscription then.
func Settled(tb testing.TB, rdb *redis.Client) func() bool {
	calls, since := -1, time.Now()
	return func() bool {
		tb.Helper()
		if n := Scripts(tb, rdb); n != calls {
			calls, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	}
}

// Dump returns everything that is on the server.
func Dump(rdb redis.UniversalClient) string {
	ctx := context.Background()
	var all strings.Builder
	for _, key := range rdb.Keys(ctx, "*").Val() {
		var content any
		switch rdb.Type(ctx, key).Val() {
		case "hash":
			content = rdb.HGetAll(ctx, key).Val()
		case "list":
			content = rdb.LRange(ctx, key, 0, -1).Val()
		case "zset":
			content = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		default:
			content = rdb.Get(ctx, key).Val()
		}
		fmt.Fprintf(&all, "%s %.2000s for %v\n", key, fmt.Sprint(content), rdb.PTTL(ctx, key).Val())
	}
	return all.String()
}
