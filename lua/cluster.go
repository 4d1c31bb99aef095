package lua

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Cluster is a client that knows where each key lives: a [redis.ClusterClient], or a wrapper with
// the same methods.
type Cluster interface {
	redis.UniversalClient
	ForEachMaster(ctx context.Context, f func(ctx context.Context, node *redis.Client) error) error
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// Sharded reports whether each lock has channels of its own, in the lock's slot, as on a cluster.
// Otherwise the client has one channel for all locks.
func (s *Server) Sharded() bool { return s.cluster != nil }

// Channel is the name of the channel on which this client hears of its grants of the lock.
func (s *Server) Channel(keys Keys) string {
	if !s.Sharded() {
		return s.own
	}
	return s.channels(keys) + s.client
}

// channels is what the clients' channels of the lock begin with.
func (s *Server) channels(keys Keys) string {
	if !s.Sharded() {
		return s.channel
	}
	name := keys.Record()[len(s.channel):] // ":lock:" is as long as ":wake:"
	return s.channel + name + ":"
}

// caller is what a script has to know of the calling client: verb, channels, client.
func (s *Server) caller(keys Keys) []any {
	if !s.Sharded() {
		return s.alone
	}
	return []any{"SPUBLISH", s.channels(keys), s.client}
}

// writing is the command that runs a script which writes. On a cluster the command names one more
// key, which never exists: a node that is giving away or taking in the slot then refuses the script
// as a whole, with TRYAGAIN. Without that key the script would run where all four keys happen to
// be. Halfway through, the node would refuse it a key that it has deleted itself; and clients that
// listen on the other node would seem dead.
func (s *Server) writing(sc script, keys Keys, n int) []any {
	if !s.Sharded() {
		return sc.on(keys.all(), n)
	}
	return sc.on(append(keys.all(), s.Freed(keys)), n)
}

// Moving reports whether err says that the keys of a lock are on their way to another node. A
// moment later they are there.
func Moving(err error) bool { return Says(err, "TRYAGAIN") }

// reloadSlots has the map of the slots read again if err may mean that it is out of date. go-redis
// does so when a node redirects a command, but not when a node is dead: go-redis learns nothing
// from a command that it may not repeat.
func (s *Server) reloadSlots(err error) {
	if err != nil && s.Sharded() && (!Answered(err) || Passing(err)) {
		s.cluster.ReloadState(context.Background())
	}
}

// home is the client of the one server that keeps the lock, as far as is known. That client follows
// no redirection.
func (s *Server) home(ctx context.Context, record string) (redis.UniversalClient, error) {
	if s.Sharded() {
		node, err := s.cluster.MasterForKey(ctx, record)
		return node, seen(err)
	}
	return s.rdb, nil
}

// Node is the node of a cluster that keeps the lock, or nil if that is not known, and where there
// are no nodes. Requests about locks of different nodes do not wait for one another.
func (s *Server) Node(keys Keys) *redis.Client {
	if !s.Sharded() {
		return nil
	}
	node, err := s.cluster.MasterForKey(context.Background(), keys.Record())
	if err != nil {
		return nil
	}
	return node
}

// elsewhere reports whether a node did nothing because another node has the keys: it answered so, or
// its client is closed, for it has left the cluster.
func elsewhere(err error) bool {
	return Says(err, "MOVED") || Says(err, "ASK") || look(err).shut
}

// Masters sends a command to the server, or at the same time to each node that has keys, and
// returns the replies. There is an error only if there are no replies: a node of a cluster may be
// away.
func (s *Server) Masters(ctx context.Context, args ...any) (replies []any, err error) {
	if !s.Sharded() {
		reply, err := s.Do(ctx, args...)
		return []any{reply}, err
	}
	nodes, err := s.masters(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex // guards replies and err
	for _, node := range nodes {
		all.Go(func() {
			var reply any
			failed := ErrCutShort // unless the goroutine comes to its end
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if failed != nil {
					err = failed
					return
				}
				replies = append(replies, reply)
			}()
			cmd := newOnce(ctx, args)
			failed = s.bounded(ctx, MostKept, func() { _ = node.Process(ctx, cmd) }) // it keeps its own error
			if failed == nil {
				reply, failed = cmd.Result()
			}
		})
	}
	all.Wait()
	if len(replies) > 0 {
		err = nil
	}
	return replies, err
}
