package topologies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// These tests share a cluster in which no master is replaced, and leave it as it was.
func TestAClusterThatMisbehaves(t *testing.T) {
	t.Parallel()
	c := redistest.StartNodes(t, 3, time.Minute)
	t.Run("what_is_wrapped_around_a_cluster_s_client_is_one_of_a_cluster", func(t *testing.T) { wrappedOnACluster(t, c) })
	t.Run("nodes_that_hang_give_a_lock_to_nobody_twice_and_keep_no_call_whatever_client_it_has", func(t *testing.T) { hungNodes(t, c) })
	t.Run("nodes_that_hang_keep_no_new_Locker_from_the_locks_of_the_others_for_long", func(t *testing.T) { newWhileOthersHang(t, c) })
	t.Run("nodes_and_maps_that_lie_give_a_lock_to_nobody_twice_and_keep_no_call", func(t *testing.T) { lyingNodes(t, c) })
	t.Run("a_node_that_forbids_messages_hands_over_all_the_same_and_the_others_at_once", func(t *testing.T) { forbiddenOnOneNode(t, c) })
	t.Run("a_call_that_waits_ends_when_its_client_is_closed", func(t *testing.T) { waitingWithoutAClient(t, c) })
	t.Run("Lockers_that_are_closed_while_slots_move_leave_nothing_behind", func(t *testing.T) { closedWhileSlotsMove(t, c) })
}

// nameOn returns the name of a lock that lives on a node.
func nameOn(c *redistest.Cluster, master *redistest.Server, prefix string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint(prefix, " ", i); c.MasterOf("{"+name+"}") == master {
			return name
		}
	}
}

func wrappedOnACluster(t *testing.T, c *redistest.Cluster) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		rdb := c.Client(t)
		holder, waiter := kind(wrapped{rdb}, quietly), kind(wrapped{c.Client(t)}, quietly)
		defer holder.Close()
		defer waiter.Close()
		for _, master := range c.Masters() {
			name := nameOn(c, master, "wrapped")
			lease, waits := world.HeldAndWaitedFor(t, holder, waiter, name)
			node := master.Client(t)
			world.Until(t, "it listens where the lock is", func() bool { return listeners(t, node, name) > 0 })
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-waits; got.Err != nil || got.Lease.Unlock(t.Context()) != nil {
				t.Fatal(got.Err)
			}
		}
	})
}

// crew has about eight callers for each of six locks, by Lockers with a client each, while harm is
// done. Afterwards all of them must go on.
func crew(t *testing.T, kind world.Kind, clients []redis.UniversalClient, harm func()) *referee {
	t.Helper()
	r := newReferee(t)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i, rdb := range clients {
		l := kind(rdb, quietly, fairlock.WithLease(2*time.Second))
		defer func() { _ = l.Close() }() //nolint:gocritic // few, and all until the end; it never fails
		for j := range max(1, 48/len(clients)) {
			dice := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			all.Go(func() { r.use(ctx, l, fmt.Sprint("crew ", (i+j)%6), dice) })
		}
	}
	r.goOn(t)
	harm()
	r.goOn(t)
	stop()
	all.Wait()
	return r
}

func hungNodes(t *testing.T, c *redistest.Cluster) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		var clients []redis.UniversalClient
		for _, change := range []func(*redis.ClusterOptions){
			func(*redis.ClusterOptions) {},
			func(o *redis.ClusterOptions) { o.PoolSize = 1 },
			func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true },
			func(o *redis.ClusterOptions) { o.ReadTimeout = -1 },
			func(o *redis.ClusterOptions) { o.ReadTimeout = -2 },
			func(o *redis.ClusterOptions) { o.ReadOnly = true },
			func(o *redis.ClusterOptions) { o.RouteRandomly = true }, // RouteByLatency has a race of go-redis' own: nodes are pinged as they are made
		} {
			clients = append(clients, c.Client(t, change))
		}
		clients = append(clients, wrapped{c.Client(t)}, hiding{c.Client(t)})
		r := crew(t, kind, clients, func() {
			masters := c.Masters()
			masters[0].Pause()
			time.Sleep(1500 * time.Millisecond) // a lease is trusted for 1.8 s
			masters[0].Resume()
			masters[1].Pause()
			time.Sleep(2500 * time.Millisecond) // longer than that
			masters[1].Resume()
			if err := masters[2].Client(t).Do(t.Context(), "client", "pause", 1000, "write").Err(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		})
		r.verdict(t, false, false)
	})
}

// newWhileOthersHang makes a Locker's first call, which also contacts all other nodes. Each node in
// turn is the one that answers: a request without a key goes to any of them.
func newWhileOthersHang(t *testing.T, c *redistest.Cluster) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		for answers, timeout := range []time.Duration{0, -1, -1} {
			rdb := c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = timeout })
			masters := c.Masters()
			name := nameOn(c, masters[answers], "healthy")
			rdb.Get(t.Context(), "{"+name+"}") // now the client knows the map
			others := slices.Delete(slices.Clone(masters), answers, answers+1)
			hung := nameOn(c, others[0], "hung")
			for _, other := range others {
				other.Pause()
				t.Cleanup(other.Resume) // the test may fail, and other tests share the cluster
			}
			l := kind(rdb, quietly)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			first := world.InBackground(l, hung) // it looks, and others wait for that
			time.Sleep(50 * time.Millisecond)
			lease, err := l.Lock(ctx, name)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("with a read timeout of %v it took %v", timeout, took)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			for _, other := range others {
				other.Resume()
			}
			if got := <-first; got.Err == nil {
				_ = got.Lease.Unlock(t.Context())
			}
			_ = l.Close() // it never fails
		}
	})
}

func lyingNodes(t *testing.T, c *redistest.Cluster) {
	proxies := make(map[string]*faultproxy.Proxy)
	for _, node := range c.Nodes() {
		proxies[node.Addr()] = faultproxy.New(t, node.Addr())
		proxies[node.Addr()].Forget()
	}
	through := func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr())
		}
	}
	// lies replaces the replies to one script in ten on every node, though the scripts were
	// executed. Of cluster maps it replaces all.
	lies := func(match func([]string) bool, lie func([]byte) []byte) {
		var rules []*faultproxy.Handle
		for _, p := range proxies {
			rules = append(rules, p.Add(faultproxy.Rule{Match: match, Action: faultproxy.RewriteReply(lie)}))
			p.CutAll() // so that clients read the map and subscribe again
		}
		time.Sleep(700 * time.Millisecond)
		for _, rule := range rules {
			rule.Remove()
		}
	}
	script := faultproxy.Command("EVALSHA")
	some := func(args []string) bool { return script(args) && rand.IntN(10) == 0 }
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		clients := []redis.UniversalClient{c.Client(t, through), c.Client(t, through), c.Client(t, through)}
		masters := c.Masters()
		port := func(i int) []byte { return fmt.Appendf(nil, ":%d\r\n", masters[i].Port()) }
		r := crew(t, kind, clients, func() {
			for _, text := range []string{
				"MOVED 1 " + masters[0].Addr(), "MOVED 1 " + c.Nodes()[4].Addr(), "ASK 1 " + masters[1].Addr(), "CLUSTERDOWN The cluster is down",
				"LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down", "TRYAGAIN Multiple keys request during rehashing of slot",
			} {
				lies(some, func([]byte) []byte { return []byte("-" + text + "\r\n") })
			}
			cluster := faultproxy.Command("CLUSTER")
			lies(cluster, func([]byte) []byte { return []byte("*0\r\n") })
			lies(cluster, func(reply []byte) []byte { // two masters change places
				reply = bytes.ReplaceAll(reply, port(0), []byte("::"))
				return bytes.ReplaceAll(bytes.ReplaceAll(reply, port(1), port(0)), []byte("::"), port(1))
			})
			lies(cluster, func(reply []byte) []byte {
				return bytes.ReplaceAll(bytes.ReplaceAll(reply, port(1), port(0)), port(2), port(0))
			})
		})
		r.verdict(t, false, true) // a call may fail because of its first answer
	})
}

func forbiddenOnOneNode(t *testing.T, c *redistest.Cluster) {
	masters := c.Masters()
	for _, node := range c.Nodes() {
		rule := []any{"acl", "setuser", "app", "reset", "on", "nopass", "+@all", "~*", "allchannels"}
		if node == masters[1] {
			rule = append(rule, "-spublish", "-ssubscribe")
		}
		if err := node.Client(t).Do(t.Context(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	user := func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "any" }
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		holder, waiter := kind(c.Client(t, user), quietly), kind(c.Client(t, user), quietly)
		defer holder.Close()
		defer waiter.Close()
		for i, master := range masters {
			lease, waits := world.HeldAndWaitedFor(t, holder, waiter, nameOn(c, master, "forbidden"))
			if i != 1 {
				node := master.Client(t)
				world.Until(t, "it listens", func() bool { return listeners(t, node, lease.Name()) > 0 })
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got := <-waits
			took := time.Since(began)
			if got.Err != nil || got.Lease.Unlock(t.Context()) != nil {
				t.Fatal(got.Err)
			}
			t.Logf("%d: %v", i, took)
			if took > world.EnterInterval+world.Soon || i != 1 && took > 2400*time.Millisecond { // nobody asks before 2.5 s
				t.Errorf("master %d: handed over after %v", i, took)
			}
		}
	})
}

func waitingWithoutAClient(t *testing.T, c *redistest.Cluster) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, _ string) {
		for name, options := range map[string][]fairlock.LockOption{
			"usual": nil, "replicated": {fairlock.WithReplicas(1, 10*time.Millisecond)},
		} {
			own := c.Client(t)
			holder, waiter := kind(c.Client(t), quietly), kind(own, quietly)
			lease, err := holder.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			waits := world.Queue(waiter, name, options...)
			_, _ = own.Close(), lease.Unlock(t.Context()) // the outcome is what counts
			select {
			case got := <-waits:
				if !errors.Is(got.Err, redis.ErrClosed) {
					t.Errorf("%s: it says %v", name, got.Err)
				}
			case <-time.After(world.Patience):
				t.Errorf("%s: it waits yet", name)
			}
			_, _ = waiter.Close(), holder.Close() // they never fail
		}
	})
}

func closedWhileSlotsMove(t *testing.T, c *redistest.Cluster) {
	world.BothKinds(t, func(t *testing.T, kind world.Kind, prefix string) {
		r := newReferee(t)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range 4 {
			rdb := c.Client(t)
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l := kind(rdb, quietly, fairlock.WithLease(2*time.Second))
					var users sync.WaitGroup
					for j := range 6 {
						dice := rand.New(rand.NewPCG(uint64(i*6+j), uint64(n))) //nolint:gosec // neither is negative
						users.Go(func() { r.use(context.Background(), l, fmt.Sprint("closed ", j%3), dice) })
					}
					time.Sleep(time.Duration(50+(i*37+n*61)%200) * time.Millisecond)
					took := r.takes()
					if n%2 == 0 {
						_ = l.Close() // it never fails
					} else {
						brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
						_ = l.Shutdown(brief) // a lock may still be held
						cancel()
					}
					users.Wait()
					r.came("users of a closed Locker", took, 5*time.Second, nil)
				}
			})
		}
		for i := range 12 {
			masters, key := c.Masters(), fmt.Sprintf("{closed %d}", i%3)
			c.Move(c.Slot(key), masters[(slices.Index(masters, c.MasterOf(key))+1)%len(masters)])
		}
		stop()
		all.Wait()
		r.verdict(t, false, true)
		world.Until(t, "no subscription, no ticket and no record is left", func() bool {
			left := 0
			for _, master := range c.Masters() {
				node := redis.NewClient(&redis.Options{Addr: master.Addr()})
				left += len(node.PubSubShardChannels(t.Context(), "*").Val())
				for _, what := range []string{"queue", "lock"} {
					left += len(node.Keys(t.Context(), prefix+":"+what+":{closed *").Val())
				}
				_ = node.Close() // it has answered
			}
			return left == 0
		})
	})
}
