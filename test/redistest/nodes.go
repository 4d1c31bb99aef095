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

// slots is how many slots a cluster has.
const slots = 16384

// clusterTimeout bounds whatever a cluster has to agree on.
const clusterTimeout = 60 * time.Second

// Cluster is a Redis Cluster of several masters, each with a replica that can take over.
type Cluster struct {
	tb    testing.TB
	args  []string  // of each node
	nodes []*Server // masters, a replica for each, and those that joined
	ids   map[*Server]string
}

// StartNodes runs a cluster of that many masters, with a replica each. The slots are divided evenly
// between the masters. A master that is silent for nodeTimeout is replaced.
func StartNodes(tb testing.TB, masters int, nodeTimeout time.Duration) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, ids: make(map[*Server]string), args: []string{
		"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
	}}
	for range 2 * masters {
		c.nodes = append(c.nodes, Start(tb, c.args...))
	}
	ctx := context.Background()
	for i, node := range c.nodes {
		rdb := node.Client(tb)
		if i < masters {
			c.must(rdb.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		}
		c.must(rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		c.must(rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(c.nodes[0].Port())).Err())
	}
	c.Await("all know one another", func(at *view) bool { return len(at.nodes) == 2*masters })
	for i, node := range c.nodes[masters:] {
		c.must(node.Client(tb).ClusterReplicate(ctx, c.id(c.nodes[i])).Err())
	}
	c.AwaitWhole()
	return c
}

// Join adds a master without slots and without a replica. It returns the node when all others know
// it and it serves.
func (c *Cluster) Join() *Server {
	c.tb.Helper()
	node := Start(c.tb, c.args...)
	rdb := node.Client(c.tb)
	defer rdb.Close()
	c.must(rdb.ClusterMeet(context.Background(), "127.0.0.1", strconv.Itoa(c.living()[0].Port())).Err())
	c.nodes = append(c.nodes, node)
	c.Await("all know the one that joined", func(at *view) bool { return len(at.nodes) == len(c.nodes) })
	c.AwaitWhole()
	return node
}

func (c *Cluster) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatalf("cluster: %v", err)
	}
}

// Client returns a new client of the cluster with go-redis's own defaults, changed by mutate, and
// closes it when the test ends.
func (c *Cluster) Client(tb testing.TB, mutate ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	opts := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, change := range mutate {
		change(opts)
	}
	rdb := redis.NewClusterClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() }) // the test may have closed it already
	return rdb
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() (all []string) {
	for _, node := range c.nodes {
		all = append(all, node.Addr())
	}
	return all
}

// Nodes returns all servers of the cluster.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Masters returns the nodes that have slots, as the first living node sees the cluster.
func (c *Cluster) Masters() (all []*Server) {
	at := c.look(c.living()[0])
	for _, node := range c.nodes {
		if n := at.nodes[node.Addr()]; n != nil && len(n.slots) > 0 && !n.failed {
			all = append(all, node)
		}
	}
	return all
}

// MasterOf returns the node that says it has a key's slot.
func (c *Cluster) MasterOf(key string) *Server {
	c.tb.Helper()
	return c.owner(c.Slot(key))
}

// ReplicasOf returns the living nodes that follow a master, as the master sees them.
func (c *Cluster) ReplicasOf(master *Server) (all []*Server) {
	c.tb.Helper()
	at := c.look(master)
	for _, node := range c.living() {
		if n := at.nodes[node.Addr()]; n != nil && n.follows == c.id(master) {
			all = append(all, node)
		}
	}
	return all
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	rdb := c.living()[0].Client(c.tb)
	defer rdb.Close()
	slot, err := rdb.ClusterKeySlot(context.Background(), key).Result()
	c.must(err)
	return int(slot)
}

func (c *Cluster) owner(slot int) *Server {
	c.tb.Helper()
	for _, node := range c.living() {
		if n := c.look(node).nodes[node.Addr()]; n != nil && n.owns(slot) {
			return node
		}
	}
	c.tb.Fatalf("nobody has slot %d", slot)
	return nil
}

// living returns the nodes that were not killed.
func (c *Cluster) living() (all []*Server) {
	for _, node := range c.nodes {
		if !node.process().ended() {
			all = append(all, node)
		}
	}
	return all
}

// AwaitWhole returns when every living node sees two things: every slot is served, and each living
// node has its role, as a master or as a replica that is up to date.
func (c *Cluster) AwaitWhole() {
	c.tb.Helper()
	c.Await("it is whole", func(at *view) bool {
		if !at.ok || at.served() != slots {
			return false
		}
		for _, node := range c.living() {
			if n := at.nodes[node.Addr()]; n == nil || n.failed {
				return false
			}
		}
		return at.settled
	})
}

// Await returns when the condition holds for every living node's view.
func (c *Cluster) Await(what string, holds func(*view) bool) {
	c.tb.Helper()
	all := func() bool {
		for _, node := range c.living() {
			if !holds(c.look(node)) {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(clusterTimeout); !all(); time.Sleep(4 * pollInterval) {
		if time.Now().After(deadline) {
			c.tb.Fatalf("cluster: waited in vain until %s", what)
		}
	}
}

// Failover kills the master of a key without a farewell. It returns when all nodes agree that
// another node has the dead master's slots, and says how long that took.
func (c *Cluster) Failover(key string) (dead *Server, took time.Duration) {
	c.tb.Helper()
	dead = c.MasterOf(key)
	killed := time.Now()
	dead.Kill()
	c.Await("somebody takes over", func(at *view) bool {
		n := at.nodes[dead.Addr()]
		return at.ok && at.served() == slots && (n == nil || len(n.slots) == 0)
	})
	return dead, time.Since(killed)
}

// Move moves a slot with its keys to another master, as redis-cli does, while clients use it. It
// returns when all nodes know the new owner. (If slots move faster than the nodes' epochs spread,
// two nodes may in the end each say that the other has a slot.)
func (c *Cluster) Move(slot int, to *Server) {
	c.tb.Helper()
	ctx := context.Background()
	from := c.owner(slot)
	if from == to {
		return
	}
	source, target := from.Client(c.tb), to.Client(c.tb)
	defer source.Close()
	defer target.Close()
	do := func(rdb *redis.Client, args ...any) { c.tb.Helper(); c.must(rdb.Do(ctx, args...).Err()) }
	do(target, "cluster", "setslot", slot, "importing", c.id(from))
	do(source, "cluster", "setslot", slot, "migrating", c.id(to))
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		c.must(err)
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", "127.0.0.1", to.Port(), "", 0, 5000, "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		do(source, args...)
	}
	do(target, "cluster", "setslot", slot, "node", c.id(to))
	do(source, "cluster", "setslot", slot, "node", c.id(to))
	for _, other := range c.Masters() {
		if other != from && other != to {
			rdb := other.Client(c.tb)
			do(rdb, "cluster", "setslot", slot, "node", c.id(to))
			_ = rdb.Close() // the client has done its work
		}
	}
	epoch := c.look(to).epoch
	c.Await("all know who has the slot", func(at *view) bool {
		n := at.nodes[to.Addr()]
		return at.epoch == epoch && n != nil && n.owns(slot)
	})
}

// id returns a node's name in the cluster.
func (c *Cluster) id(node *Server) string {
	if id, ok := c.ids[node]; ok {
		return id
	}
	rdb := node.Client(c.tb)
	defer rdb.Close()
	id, err := rdb.Do(context.Background(), "cluster", "myid").Text()
	c.must(err)
	c.ids[node] = id
	return id
}

// view is the cluster as one node sees it.
type view struct {
	ok      bool
	epoch   string // the latest epoch that the node knows
	settled bool   // a replica has its master's data; true for a master
	nodes   map[string]*member
}

type member struct {
	slots   [][2]int
	follows string // its master's id; "-": the node is a master
	failed  bool
}

func (m *member) owns(slot int) bool {
	for _, r := range m.slots {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// served returns how many slots living nodes have.
func (v *view) served() (n int) {
	for _, m := range v.nodes {
		for _, r := range m.slots {
			if !m.failed {
				n += r[1] - r[0] + 1
			}
		}
	}
	return n
}

// look asks one node for its view. A node that does not answer sees nothing.
func (c *Cluster) look(node *Server) *view {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr(), Password: node.auth, MaxRetries: -1})
	defer rdb.Close()
	v := &view{nodes: make(map[string]*member)}
	for line := range strings.Lines(rdb.ClusterInfo(ctx).Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "cluster_state":
			v.ok = value == "ok"
		case "cluster_current_epoch":
			v.epoch = value
		}
	}
	v.settled = !strings.Contains(rdb.Info(ctx, "replication").Val(), "master_link_status:down")
	for line := range strings.Lines(rdb.ClusterNodes(ctx).Val()) {
		// id ip:port@bus flags master ping pong epoch link slot...
		field := strings.Fields(line)
		if len(field) < 8 || strings.Contains(field[2], "handshake") {
			continue
		}
		addr, _, _ := strings.Cut(field[1], "@")
		m := &member{follows: field[3], failed: strings.Contains(field[2], "fail")}
		for _, text := range field[8:] {
			var r [2]int
			if n, _ := fmt.Sscanf(text, "%d-%d", &r[0], &r[1]); n == 1 {
				r[1] = r[0]
			} else if n == 0 {
				continue // [slot->-node]: being moved
			}
			m.slots = append(m.slots, r)
		}
		v.nodes[addr] = m
	}
	return v
}
