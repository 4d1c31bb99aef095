package lua

import (
	"context"
	"time"
)

// mostStirred is how many idle connections are used at a time.
const mostStirred = 32

// stirEvery is the least time from one use of all idle connections to the next.
const stirEvery = 500 * time.Millisecond

// Stir uses each connection that lies idle at the lock's server once. It is for a request that goes
// unanswered: a firewall may have forgotten the idle connections, and each would cost a request the
// client's read timeout. While they are in use, requests dial.
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
	now, last := time.Now().UnixNano(), s.stirred.Load()
	if now-last < int64(stirEvery) || !s.stirred.CompareAndSwap(last, now) {
		return
	}
	node := s.rdb
	if s.Sharded() {
		one, err := s.cluster.MasterForKey(context.Background(), record)
		if err != nil {
			return
		}
		node = one
	}
	for range min(int(node.PoolStats().IdleConns), mostStirred) {
		s.spawn(func() {
			ctx := context.Background()
			_ = node.Process(ctx, newOnce(ctx, []any{"ping"})) // a dead connection is closed by that
		})
	}
}
