package lua

import (
	"sync"
	"testing"
	"time"

	"github.com/fairlock/locks/test/redistest"
)

// Pipelines have a pool of their own.
func TestStirUsesEachIdleConnectionOfBothPoolsOnceAndNotAgainAtOnce(t *testing.T) {
	server := redistest.Start(t)
	c, other := server.Client(t), server.Client(t)
	redistest.FillPool(t, c, 3)
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
	before := redistest.Calls(t, other, "ping") // of those, and of whoever started the server
	for range 2 {
		s.Stir(keysOf(t, "x"))
		all.Wait()
		equal(t, "pings", redistest.Calls(t, other, "ping")-before, 4)
		s.stirredAt(server.Addr(), time.Now()) // however long that took
	}
}
