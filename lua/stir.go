package lua

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostStirred is how many idle connections of a pool are used at a time.
const mostStirred = 32

// stirEvery is the least time from one use of a server's idle connections to the next.
const stirEvery = 500 * time.Millisecond

// stirFor is how long a connection has to answer. Meanwhile a request may find the whole pool in use,
// and wait.
const stirFor = time.Second

// Stir uses each connection that lies idle at the lock's server once, and so closes the dead ones.
// It is for a request that goes unanswered: a firewall may have forgotten the idle connections. Each
// would cost a request the client's read timeout.
func (s *Server) Stir(keys Keys) { s.stir(keys.Record()) }

func (s *Server) stir(record string) {
	if s.timing.unbounded() || s.timing.dials { // nothing would give them up; or time is simulated
		return
	}
	select {
	case <-s.ends: // a Close would wait for that
		return
	default:
	}
	home, err := s.home(context.Background(), record)
	if err != nil {
		return
	}
	node, ok := home.(*redis.Client)
	if !ok || !s.mayStir(node) {
		return
	}
	stats := node.PoolStats()
	node = node.WithTimeout(min(s.timing.bound, stirFor))
	s.ping(stats.IdleConns, node.Process)
	if other := stats.PipelineStats; other != nil { // pipelines have connections of their own
		s.ping(other.IdleConns, func(ctx context.Context, ping redis.Cmder) error {
			pipe := node.Pipeline()
			_ = pipe.Process(ctx, ping)
			return exec(ctx, pipe)
		})
	}
}

// mayStir reports whether the node's idle connections have not been used lately, and notes that
// they are now.
func (s *Server) mayStir(node *redis.Client) bool {
	kept, _ := s.stirred.LoadOrStore(node.Options().Addr, new(atomic.Int64))
	last := kept.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored there
	now, before := time.Now().UnixNano(), last.Load()
	return now-before >= int64(stirEvery) && last.CompareAndSwap(before, now)
}

// ping sends so many pings, each over an idle connection or not at all.
func (s *Server) ping(n uint32, by func(context.Context, redis.Cmder) error) {
	for range min(n, mostStirred) {
		s.spawn(func() {
			ctx := &prompt{Context: context.Background()}
			_ = by(ctx, newOnce(ctx, []any{"ping"})) // a dead connection is closed by that
		})
	}
}
