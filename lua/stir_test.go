package lua

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// pings is how many pings the server has answered.
func pings(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	_, after, _ := strings.Cut(rdb.Info(ctx, "commandstats").Val(), "cmdstat_ping:calls=")
	calls, _, _ := strings.Cut(after, ",")
	n, err := strconv.Atoi(calls)
	must(t, err)
	return n
}

// Pipelines have a pool of their own.
func TestStirUsesEachIdleConnectionOfBothPoolsOnceAndNotAgainAtOnce(t *testing.T) {
	server := redistest.Start(t)
	c, other := server.Client(t), server.Client(t)
	var conns []*redis.Conn
	for range 3 {
		conn := c.Conn()
		must(t, conn.Echo(ctx, "").Err())
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		must(t, conn.Close()) // it goes back to the pool
	}
	pipe := c.Pipeline()
	pipe.Echo(ctx, "")
	_, err := pipe.Exec(ctx)
	must(t, err)
	stats := c.PoolStats()
	equal(t, "idle", stats.IdleConns, uint32(3))
	equal(t, "idle, for pipelines", stats.PipelineStats.IdleConns, uint32(1))
	s := NewServer(c, "w:", "a")
	var all sync.WaitGroup
	s.Spawn(all.Go, nil)
	before := pings(t, other) // of whoever started the server
	for range 2 {
		s.Stir(keysOf(t, "x"))
		all.Wait()
		equal(t, "pings", pings(t, other)-before, 4)
		s.stirredAt(server.Addr(), time.Now()) // however long that took
	}
}
