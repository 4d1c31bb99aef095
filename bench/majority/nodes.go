package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/bench/host"
	"github.com/fairlock/locks/bench/peers"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/quorum"
)

// contestant is a way to lock on that many nodes.
type contestant struct {
	name  string
	nodes int
	open  func(ctx context.Context, nodes []redis.UniversalClient) (locker, error)
}

var contestants = []contestant{
	{"one node", 1, func(_ context.Context, nodes []redis.UniversalClient) (locker, error) {
		return ours{fairlock.New(nodes[0])}, nil
	}},
	{"quorum of 3", 3, openQuorum},
	{"quorum of 5", 5, openQuorum},
	{"redsync on 3", 3, openRedsync()},
	{"redsync on 3, fail fast", 3, openRedsync(redsync.WithFailFast(true))},
	{"redsync on 5", 5, openRedsync()},
}

func openQuorum(ctx context.Context, nodes []redis.UniversalClient) (locker, error) {
	l := quorum.New(nodes)
	return ours{l}, l.Init(ctx)
}

// locker locks. The token is 0 where there is none.
type locker interface {
	lock(ctx context.Context) (token int64, unlock func() error, err error)
	close()
}

type ours struct{ fairlock.Interface }

func (o ours) close() { _ = o.Close() } // its clients are closed after it

func (o ours) lock(ctx context.Context) (int64, func() error, error) {
	lease, err := o.Lock(ctx, "x")
	if err != nil {
		return 0, nil, err
	}
	return lease.Token(), func() error { return lease.Unlock(context.Background()) }, nil
}

type theirs struct {
	*redsync.Redsync
	options []redsync.Option
}

func openRedsync(options ...redsync.Option) func(context.Context, []redis.UniversalClient) (locker, error) {
	return func(_ context.Context, nodes []redis.UniversalClient) (locker, error) {
		var pools []redsyncredis.Pool
		for _, rdb := range nodes {
			pools = append(pools, goredis.NewPool(rdb))
		}
		options := append([]redsync.Option{redsync.WithExpiry(30 * time.Second), redsync.WithTries(math.MaxInt32)}, options...)
		return theirs{redsync.New(pools...), options}, nil
	}
}

func (t theirs) close() {}

func (t theirs) lock(ctx context.Context) (int64, func() error, error) {
	m := t.NewMutex("x", t.options...)
	if err := m.LockContext(ctx); err != nil {
		return 0, nil, err
	}
	return 0, func() error { _, err := m.UnlockContext(context.Background()); return err }, nil
}

// nodes are servers of a contestant's own, each behind a link if there is a delay.
type nodes struct {
	servers []host.Server
	links   []*host.Link
	addrs   []string
	clients []*redis.Client
	all     []locker
	down    int // that many do not answer any more
	stopped *os.Process
}

func start(count int, delay time.Duration) (*nodes, error) {
	n := new(nodes)
	for range count {
		server, err := host.Serve(peers.Redis)
		if err != nil {
			n.end()
			return nil, err
		}
		n.servers, n.addrs = append(n.servers, server), append(n.addrs, server.Addr())
		if delay == 0 {
			continue
		}
		link, err := host.NewLink(server.Addr(), delay)
		if err != nil {
			n.end()
			return nil, err
		}
		n.links, n.addrs[len(n.addrs)-1] = append(n.links, link), link.Addr()
	}
	return n, nil
}

// lockers opens as many, each with clients of its own.
func (n *nodes) lockers(ctx context.Context, c contestant, count int) ([]locker, error) {
	for range count {
		var all []redis.UniversalClient
		for _, addr := range n.addrs {
			rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 100})
			n.clients, all = append(n.clients, rdb), append(all, rdb)
		}
		l, err := c.open(ctx, all)
		if err != nil {
			return nil, err
		}
		n.all = append(n.all, l)
	}
	return n.all, nil
}

// suffer kills or stops the last node.
func (n *nodes) suffer(trouble string) error {
	last := len(n.servers) - 1
	switch trouble {
	case "none":
		return nil
	case "killed":
		n.servers[last].Kill()
		if len(n.links) > 0 {
			n.links[last].Close()
		}
	case "stopped":
		pid, ok := n.servers[last].(interface{ Pid() int })
		if !ok {
			return errors.New("the server has no process of its own")
		}
		process, err := os.FindProcess(pid.Pid())
		if err != nil {
			return err
		}
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		n.stopped = process
	default:
		return fmt.Errorf("-trouble %q is none of none, killed, stopped", trouble)
	}
	n.down = 1
	return nil
}

// requests counts those of clients so far, at the nodes that answer.
func (n *nodes) requests(ctx context.Context) (count int64) {
	for _, s := range n.servers[:len(n.servers)-n.down] {
		if stats, err := s.Stats(ctx); err == nil {
			count += stats.Requests([]string{"evalsha", "eval"})
			for _, l := range n.all {
				if _, ok := l.(theirs); ok {
					count += stats.Requests([]string{"set"})
					break
				}
			}
		}
	}
	return count
}

func (n *nodes) end() {
	if n.stopped != nil {
		_ = n.stopped.Signal(syscall.SIGCONT) // it is killed next
	}
	for _, l := range n.all {
		l.close()
	}
	for _, rdb := range n.clients {
		_ = rdb.Close()
	}
	for _, l := range n.links {
		l.Close()
	}
	for _, s := range n.servers {
		s.Kill()
	}
}
