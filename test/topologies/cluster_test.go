package topologies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

// These tests share one cluster, because a cluster takes seconds to form. None of them harms it;
// the last one leaves it with one more master.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartNodes(t, 3, 5*time.Second)
	t.Run("fair_locks_do_what_every_Locker_does", func(t *testing.T) { onCluster(t, c, world.Fair, false) })
	t.Run("plain_locks_do_what_every_lock_does", func(t *testing.T) { onCluster(t, c, world.Plain, true) })
	t.Run("ten_thousand_waiters_of_five_hundred_locks_need_one_subscription_connection_to_each_master", func(t *testing.T) { crowded(t, c) })
	t.Run("a_hand_over_takes_as_many_requests_as_on_one_server", func(t *testing.T) { asFewRequests(t, c) })
	t.Run("a_hundred_locks_of_one_slot_take_the_requests_of_one", func(t *testing.T) { locksOfOneSlotInOneTrip(t, c) })
	t.Run("slots_move_and_nobody_loses_a_lock_or_waits_longer_than_an_enter_interval", func(t *testing.T) { whileSlotsMove(t, c) })
	t.Run("replicas_of_a_lock_s_own_master_confirm_it_and_no_others", func(t *testing.T) { confirmedOnACluster(t, c) })
	t.Run("a_node_that_no_client_knew_takes_over_slots_and_nobody_loses_a_lock_or_a_place", func(t *testing.T) { whenANodeIsAdded(t, c) })
}

func onCluster(t *testing.T, c *redistest.Cluster, kind world.Kind, plain bool) {
	t.Helper()
	admin := c.Client(t)
	ofKind(plain)(t, func(t *testing.T, test func(conformance.World)) {
		flush := func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() }
		if err := admin.ForEachMaster(t.Context(), flush); err != nil {
			t.Fatal(err)
		}
		test(conformance.World{T: t, Lease: time.Second, New: kind, Plain: plain, Dial: func() redis.UniversalClient {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
			ping := func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }
			// Handshakes take time, and are not what is measured.
			_ = rdb.ForEachMaster(context.Background(), ping)
			return rdb
		}})
	})
}

// ofKind is what locks of a kind do where there are several servers. What users' own code comes to
// is tried with fair locks alone.
func ofKind(plain bool) func(*testing.T, func(*testing.T, func(conformance.World))) {
	if plain {
		return conformance.RunLocks
	}
	return conformance.Run
}

// crowdTime bounds what thousands of calls do on a busy machine.
const crowdTime = 60 * time.Second

func crowded(t *testing.T, c *redistest.Cluster) {
	const locks, each = 500, 20
	holder, locker := fairlock.New(c.Client(t)), fairlock.New(c.Client(t))
	var held []*fairlock.Lease
	var all sync.WaitGroup
	var failed atomic.Value
	var lost atomic.Int64
	served, queued := make([]atomic.Int64, locks), new(atomic.Int64)
	for i := range locks {
		name := fmt.Sprint("crowd ", i)
		lease, err := holder.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
		for range each {
			all.Go(func() {
				var once sync.Once
				lease, err := locker.Lock(context.Background(), name, fairlock.OnQueued(func(int) { once.Do(func() { queued.Add(1) }) }))
				if err == nil {
					served[i].Add(1)
					err = lease.Unlock(context.Background())
				}
				switch {
				case errors.Is(err, fairlock.ErrLost): // when the machine stood still for as long as a claim
					lost.Add(1)
				case err != nil:
					failed.Store(err)
				}
			})
		}
	}
	world.UntilWithin(t, crowdTime, "all are in line", func() bool { return queued.Load() == locks*each })
	listening := listeningTo(t, c)
	world.Until(t, "there is a channel for each lock", func() bool { _, n := listening(); return n == locks })
	if n, _ := listening(); n != 3 {
		t.Fatalf("%d subscription connections", n)
	}
	start := time.Now()
	for _, lease := range held {
		if err := lease.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	t.Logf("%d grants in %v, %d of them lost", locks*each, time.Since(start), lost.Load())
	if err := failed.Load(); err != nil {
		t.Fatal(err)
	}
	for i := range served {
		if n := served[i].Load(); n != each {
			t.Fatalf("lock %d was had %d times", i, n)
		}
	}
	_ = holder.Close() // they never fail
	_ = locker.Close()
	world.Until(t, "no subscription is left", func() bool { connections, channels := listening(); return connections+channels == 0 })
}

// listeningTo counts subscription connections and channels. No node may have more than one such
// connection.
func listeningTo(t *testing.T, c *redistest.Cluster) func() (connections, channels int) {
	t.Helper()
	var rdbs []*redis.Client
	for _, node := range c.Nodes() {
		rdbs = append(rdbs, node.Client(t))
	}
	return func() (connections, channels int) {
		for _, rdb := range rdbs {
			n := world.Subscriptions(rdb)
			if n > 1 {
				t.Fatalf("%d subscription connections to one node", n)
			}
			connections += n
			channels += len(rdb.PubSubShardChannels(context.Background(), "*").Val())
		}
		return connections, channels
	}
}

// counting counts the requests of a client, or of all nodes in a cluster's client, and the round
// trips that they take.
type counting struct{ requests, trips atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.requests.Add(1)
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.requests.Add(int64(len(cmds)))
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}

// countingOn returns clients of one server with these counts.
func countingOn(t *testing.T, server *redistest.Server) func(*counting) redis.UniversalClient {
	return func(count *counting) redis.UniversalClient {
		rdb := server.Client(t)
		rdb.AddHook(count)
		return rdb
	}
}

// countingOnAll returns clients of a cluster with these counts.
func countingOnAll(t *testing.T, c *redistest.Cluster) func(*counting) redis.UniversalClient {
	return func(count *counting) redis.UniversalClient {
		rdb := c.Client(t)
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(count) })
		return rdb
	}
}

func asFewRequests(t *testing.T, c *redistest.Cluster) {
	onOne, onMany := countingOn(t, redistest.Start(t)), countingOnAll(t, c)
	// Without runs the number is exact.
	one, many := requestsATurn(t, onOne, 4, 1), requestsATurn(t, onMany, 4, 1)
	if many > one+0.02 {
		t.Errorf("%.3f requests a turn on the cluster, %.3f on one server", many, one)
	}
	// How long runs are depends on how busy the machine is.
	if runs := requestsATurn(t, onMany, 2, 4); runs > many*3/4 {
		t.Errorf("%.3f requests a turn with runs, %.3f without", runs, many)
	}
}

// requestsATurn is what a turn costs where so many Lockers have so many waiters each.
func requestsATurn(t *testing.T, dial func(*counting) redis.UniversalClient, lockers, waiters int) float64 {
	const turns = 2000
	var n counting
	var left atomic.Int64
	all := make([]*fairlock.Locker, lockers)
	for i := range all {
		all[i] = fairlock.New(dial(&n))
	}
	defer func() {
		for _, l := range all {
			_ = l.Close() // it never fails
		}
	}()
	play := func(turns int64) {
		var playing sync.WaitGroup
		left.Store(turns)
		for i := range lockers * waiters {
			playing.Go(func() {
				for left.Add(-1) >= 0 {
					if err := all[i%lockers].Do(context.Background(), "x", func(context.Context, *fairlock.Lease) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		playing.Wait()
	}
	play(100) // makes contact and subscribes
	n.requests.Store(0)
	play(turns)
	return float64(n.requests.Load()) / turns
}

// moving are locks that are used while their slots move.
type moving struct {
	inside []atomic.Int32
	served []atomic.Int64

	mu       sync.Mutex // guards all below
	longest  []time.Duration
	failures []error
}

func (*moving) name(i int) string { return fmt.Sprint("moved ", i) }

// rest is how long a user leaves a lock alone. With a shorter rest the machine would be tested, not
// the locks.
const rest = 6 * time.Second

// use locks lock i again and again. No two locks start together, and locks whose slots move one
// after the other start far apart.
func (m *moving) use(ctx context.Context, l *fairlock.Locker, i int) {
	var most time.Duration
	pause(ctx, rest*time.Duration(i*37%len(m.served))/time.Duration(len(m.served)))
	for ctx.Err() == nil {
		asked := time.Now()
		err := l.Do(ctx, m.name(i), func(ctx context.Context, _ *fairlock.Lease) error {
			most = max(most, time.Since(asked))
			defer m.inside[i].Add(-1)
			if m.inside[i].Add(1) != 1 {
				return errors.New("two are inside")
			}
			m.served[i].Add(1)
			pause(ctx, 400*time.Millisecond) // a holder does something with its lock
			return context.Cause(ctx)
		})
		if err != nil && ctx.Err() == nil {
			m.mu.Lock()
			m.failures = append(m.failures, fmt.Errorf("lock %d: %w", i, err))
			m.mu.Unlock()
		}
		pause(ctx, rest)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest = append(m.longest, most)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// goOn returns when every lock was had once more.
func (m *moving) goOn(t *testing.T) {
	t.Helper()
	before := make([]int64, len(m.served))
	for i := range m.served {
		before[i] = m.served[i].Load()
	}
	world.UntilWithin(t, crowdTime, "every lock is had", func() bool {
		for i := range m.served {
			if m.served[i].Load() == before[i] {
				return false
			}
		}
		return true
	})
}

// move moves the slots of the first n locks to another master, and back.
func (m *moving) move(c *redistest.Cluster, n int) {
	masters, homes := c.Masters(), make([]*redistest.Server, n)
	for _, back := range []bool{false, true} {
		for i := range homes {
			key := "{" + m.name(i) + "}"
			if !back {
				homes[i] = c.MasterOf(key)
			}
			to := homes[i]
			if !back {
				to = masters[(slices.Index(masters, to)+1)%len(masters)]
			}
			c.Move(c.Slot(key), to)
		}
	}
}

// Two processes want each of a thousand locks.
func whileSlotsMove(t *testing.T, c *redistest.Cluster) {
	const locks, moved = 1000, 30
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
	lockers := []*fairlock.Locker{fairlock.New(c.Client(t), quiet), fairlock.New(c.Client(t), quiet)}
	m := &moving{inside: make([]atomic.Int32, locks), served: make([]atomic.Int64, locks)}
	var all sync.WaitGroup
	for i := range locks {
		for _, l := range lockers {
			all.Go(func() { m.use(ctx, l, i) })
		}
	}
	m.goOn(t)
	began := time.Now()
	m.move(c, moved)
	took := time.Since(began)
	m.goOn(t)
	stop()
	all.Wait()
	for _, l := range lockers {
		_ = l.Close() // it never fails
	}
	c.AwaitWhole()
	for _, err := range m.failures {
		t.Error(err)
	}
	slices.Sort(m.longest)
	t.Logf("%d moves in %v; the longest waits for a lock: %v", 2*moved, took, m.longest[len(m.longest)-5:])
	if most := m.longest[len(m.longest)-1]; most > world.EnterInterval+5*time.Second {
		t.Errorf("somebody waited for %v", most)
	}
}

// Order is judged by the wall clock that all processes share. A fence apart from the cluster judges
// overlaps and stale writes.
func TestSixtyFourWaitersInFourProcessesGoOnWhenTheirMasterIsKilled(t *testing.T) {
	const processes, each, kills, name, nodeTimeout, lease = 4, 16, 5, "x", time.Second, 3 * time.Second
	c, beside := redistest.StartNodes(t, 3, nodeTimeout), redistest.Start(t)
	var all []*workers.Worker
	var loops []*workers.Call
	for i := range processes {
		w := workers.StartOnCluster(t, fmt.Sprint("process ", i), c.Addrs(), lease)
		all = append(all, w)
		loops = append(loops, w.Guard(name, beside.Addr(), each, 0))
	}
	fence := beside.Client(t)
	taking := func() map[string]string { return fence.HGetAll(t.Context(), workers.FenceKeys(name)[4]).Val() }
	allGoOn := func() {
		before := taking()
		world.Until(t, "every process has a turn", func() bool {
			now := taking()
			for process, turns := range before {
				if now[process] == turns {
					return false
				}
			}
			return len(now) == processes
		})
	}
	allGoOn()
	var failovers []failover
	for range kills {
		killed := time.Now()
		dead, took := c.Failover("{" + name + "}")
		failovers = append(failovers, failover{killed, killed.Add(took)})
		allGoOn()
		dead.Restart()
		c.AwaitWhole()
	}
	var turns []workers.Turn
	by := make([][]workers.Turn, processes)
	for i, w := range all {
		w.Halt()
		for _, turn := range loops[i].Await(workers.Done).Turns {
			if turn.Token > 0 {
				by[i] = append(by[i], turn)
			}
		}
		turns = append(turns, by[i]...)
		w.Quit()
	}
	judged(t, turns, failovers)
	wereQuick(t, failovers, by, nodeTimeout, lease)
}

// wereQuick objects to processes that stood for long. On a busy machine, the new master has often
// not heard of the last grants. Then it keeps the lock for a lease for the last holder that it
// knows, even after that holder's release: all processes stand, and go on together. A grant to a
// process that does not listen yet costs the others a claim, and they go on far apart. That may
// happen twice.
func wereQuick(t *testing.T, failovers []failover, by [][]workers.Turn, nodeTimeout, lease time.Duration) {
	t.Helper()
	const long, far = 2400 * time.Millisecond, 1500 * time.Millisecond
	slow, apart := 0, 0
	for i, f := range failovers {
		after := f.wentOn(by, nodeTimeout)
		t.Logf("kill %d: %v until there was a new master; the processes went on %v later", i, f.over.Sub(f.killed), after)
		first, worst := slices.Min(after), slices.Max(after)
		if worst > long {
			slow++
		}
		if worst-first > far {
			apart++
		}
		if worst > lease+world.Claim+time.Second {
			t.Errorf("kill %d: a process stood for %v", i, worst)
		}
	}
	if slow == len(failovers) || apart > 2 {
		t.Errorf("of %d failovers %d were slow, and after %d the processes went on far apart", len(failovers), slow, apart)
	}
}

// failover lasts from the death of a master until there is a new one.
type failover struct{ killed, over time.Time }

// wentOn returns how long after the failover each process had the lock again.
func (f failover) wentOn(by [][]workers.Turn, nodeTimeout time.Duration) (after []time.Duration) {
	for _, turns := range by {
		first := time.Hour
		for _, turn := range turns {
			if turn.Taken.After(f.killed.Add(nodeTimeout)) {
				first = min(first, max(0, turn.Taken.Sub(f.over)))
			}
		}
		after = append(after, first)
	}
	return after
}

// judged objects to tokens given twice. While no master was away, it also objects to overlaps and
// overtaken calls.
func judged(t *testing.T, turns []workers.Turn, failovers []failover) {
	t.Helper()
	around := func(turn workers.Turn, after time.Duration) bool {
		return slices.ContainsFunc(failovers, func(f failover) bool { return turn.Taken.After(f.killed) && turn.Taken.Before(f.over.Add(after)) })
	}
	overlaps := 0
	slices.SortFunc(turns, func(a, b workers.Turn) int { return int(a.Token - b.Token) })
	refused, inversions := 0, 0
	for i, turn := range turns {
		if turn.Inside > 1 {
			overlaps++
			if !around(turn, 3*time.Second) { // a holder of the dead master had a lease
				t.Errorf("%v came while another was inside, and no master had died", turn)
			}
		}
		if turn.Refused {
			refused++
		}
		if i > 0 && turn.Token == turns[i-1].Token {
			t.Errorf("token %d was given twice", turn.Token)
		}
		// A call that asked a second earlier than the call served just before it was overtaken.
		// That may happen: until its process listens to the new master, the call is out of reach.
		// Later it comes back to its place.
		if i > 0 && turns[i-1].Asked.Sub(turn.Asked) > time.Second {
			inversions++
			if !around(turn, 5*time.Second) {
				t.Errorf("%v was overtaken by %v, and no master had died", turn, turns[i-1])
			}
		}
	}
	t.Logf("%d turns, %d overlaps, %d writes refused, %d inversions", len(turns), overlaps, refused, inversions)
	if overlaps > len(failovers) {
		t.Errorf("%d overlaps after %d kills", overlaps, len(failovers))
	}
}
