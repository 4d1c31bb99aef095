package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/ballot"
	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// These are a short lease, for tests in which one has to pass, and one that is renewed in time
// however busy the machine is.
const (
	brief = 600 * time.Millisecond
	calm  = 3 * time.Second
)

// turns has four callers of each Locker (of four, if none is given) take turns while f runs, and
// fails if two are inside at once, if a token falls, or unless there are twenty turns more within
// the time after f. A machine that is slow before f has longer.
func (w *world) turns(f func(), within time.Duration, lockers ...*Locker) {
	w.Helper()
	const few, enough = 5, 20
	t := &turnstile{world: w}
	var all sync.WaitGroup
	if len(lockers) == 0 {
		lockers = []*Locker{w.locker(), w.locker(), w.locker(), w.locker()}
	}
	for _, l := range lockers {
		for range 4 {
			all.Go(func() {
				for t.turn(l) {
				}
			})
		}
	}
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if !t.passes(few, patience) {
		w.Fatal("nobody takes turns")
	}
	pace := time.Since(began) / few
	f()
	within = max(within, min(3*enough*pace, 3*within))
	if !t.passes(enough, within) {
		w.Errorf("less than %d turns in %v", enough, within)
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	all.Wait()
}

// turnstile is where callers of one lock pass, one at a time.
type turnstile struct {
	*world
	mu           sync.Mutex // guards what follows
	inside, last int64
	over         bool
	count        int
}

// passes reports whether there are so many turns more within the time.
func (t *turnstile) passes(n int, within time.Duration) bool {
	count := func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.count
	}
	from := count()
	return poll.Until(within, func() bool { return count() >= from+n })
}

// turn takes the lock and gives it back. It reports whether the caller goes on.
func (t *turnstile) turn(l *Locker) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := l.Lock(ctx, "x")
	if err != nil {
		t.Errorf("%v", err)
		return false
	}
	t.mu.Lock()
	if t.inside++; t.inside > 1 || lease.Token() <= t.last {
		t.Errorf("%d inside, token %d after %d", t.inside, lease.Token(), t.last)
	}
	t.last = lease.Token()
	t.mu.Unlock()
	time.Sleep(time.Millisecond)
	t.mu.Lock()
	t.count++
	if t.inside--; lease.Err() != nil {
		t.inside = 0
	}
	goesOn := !t.over
	t.mu.Unlock()
	if err := lease.Unlock(context.Background()); err != nil && !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	return goesOn
}

func TestOneNodeKilledOrStoppedHoldsNobodyUp(t *testing.T) {
	for what, harm := range map[string]func(w *world){
		"killed":  func(w *world) { w.servers[1].Kill() },
		"stopped": func(w *world) { w.servers[1].Pause() },
	} {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3)
			w.turns(func() { harm(w) }, 5*time.Second) // in which few turns could wait for that node
			if what == "stopped" {
				w.servers[1].Resume()
				w.nothing()
			}
		})
	}
}

func TestProcessesThatSeeDifferentMajoritiesExcludeEachOther(t *testing.T) {
	w := realNodes(t, 3)
	var lockers []*Locker
	for i := range 3 {
		var nodes []redis.UniversalClient
		for j, addr := range w.addrs {
			if i == j {
				addr = "127.0.0.1:1" // nobody listens there
			}
			rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			nodes = append(nodes, rdb)
		}
		l := New(nodes, WithSet(setOf([]redis.UniversalClient{w.direct[0], w.direct[1], w.direct[2]})))
		t.Cleanup(func() { _ = l.Close() })
		lockers = append(lockers, l)
	}
	w.turns(func() {}, patience, lockers...)
	w.nothing()
}

func TestANodeThatForgetsLosesNoLock(t *testing.T) {
	for what, harm := range map[string]func(w *world){
		"restarted empty": func(w *world) { w.servers[1].Kill(); w.servers[1].Restart() },
		"flushed":         func(w *world) { w.must(w.direct[1].FlushAll(context.Background()).Err()) },
	} {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3)
			const span = 6 * time.Second // of which the harm, or a busy machine, may take some
			a, b := w.locker(WithLease(span), WithLongestLease(time.Minute)), w.locker(WithLease(span))
			// The third node is of no help to the holder, and then takes the side of the other.
			w.servers[2].Pause()
			lease := w.has(a, "x")
			if what == "restarted empty" { // that may outlast the claim before the first renewal
				w.everywhere(lease, 2)
			}
			harm(w)
			w.servers[2].Resume()
			w.refused(w.Context(), b)
			w.until("the holder has it at all nodes", func() bool {
				for _, rdb := range w.direct {
					if rdb.HGet(w.Context(), "quorum:lock:{x}", "decided").Val() != "1" {
						return false
					}
				}
				return true
			})
			next := w.queues(b, "x")
			w.must(lease.Err())
			w.unlock(lease)
			w.unlock(w.gets(next))
		})
	}
}

func TestAnUnlockIsCleanThoughNodesHaveForgottenTheirVotes(t *testing.T) {
	for _, forget := range [][]int{{0}, {0, 1}, {2}} {
		t.Run(fmt.Sprint(forget), func(t *testing.T) {
			inFakeTime(t, 3, func(h *hushed) {
				l := h.locker()
				h.gives(2, h.locker(), "x")
				lease := h.has(l, "x") // of two votes
				for _, i := range forget {
					h.nodes[i].FlushAll()
				}
				if err := lease.Unlock(h.Context()); err != nil {
					h.Error(err)
				}
			})
		})
	}
}

func TestANodeSaysThatItForgotAHoldUntilItsQuarantineIsOver(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		w.unlock(w.has(l, "x")) // the first contact
		w.nothing()             // also of a node whose answer the Unlock did not need
		keys, node, token := w.keys(l, "x"), w.direct[0], int64(1)
		holder, later := l.core.Ticket(&engine.Request{Lease: time.Minute}), l.core.Ticket(&engine.Request{Lease: time.Minute})
		renews := func() {
			_, err := l.nodes[0].send(w.Context(), l.nodes[0].server, renewScript, renewScript.CommandOn(
				append([]any{l.nodeKey}, append(l.keysOf(keys, holder)[:4], l.mark(keys, holder))...),
				l.core.ID, l.nodes[0].arg, l.most.Milliseconds(), holder.String(), token, 60_000, 0, 1, 1, 1))
			w.must(err)
		}
		forgets := func() { w.must(node.FlushAll(w.Context()).Err()) }
		for _, step := range []struct {
			what    string
			happens func()
			want    lua.Was
		}{
			{"it has the hold", renews, lua.Held},
			{"the hold has left", func() {}, lua.Neither},
			{"it forgets", forgets, ballot.Forgotten},
			{"somebody asks for the vote", func() { w.enters(node, l, 0, keys, later) }, ballot.Forgotten},
			{"the hold is renewed", renews, lua.Held},
			{"a late request puts it in line", func() { w.enters(node, l, 0, keys, holder) }, ballot.Forgotten},
			{"it starts anew, with old data", func() { w.must(node.HSet(w.Context(), l.nodeKey, "run", "another").Err()) }, ballot.Forgotten},
			{"the quarantine is over", func() {
				forgets()
				w.enters(node, l, 0, keys, later)
				w.must(node.HSet(w.Context(), l.nodeKey, "from", 1).Err())
			}, lua.Neither},
		} {
			step.happens()
			was, err := l.sendLeave(w.Context(), l.nodes[0].server, 0, l.leaveCommand(l.nodes[0], l.keysOf(keys, holder), holder.String(), token, 0, itself))
			w.must(err)
			if was != step.want {
				w.Errorf("%s: it says %s instead of %s", step.what, was, step.want)
			}
		}
	})
}

func TestANodeThatIsForcedSaysSoToEachLeaveOfItsHolder(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		lease := w.has(l, "x")
		w.everywhere(lease, len(w.direct))
		keys := w.keys(l, "x")
		ticket, err := lua.ParseTicket(w.direct[0].HGet(w.Context(), keys.Record(), "ticket").Val())
		w.must(err)
		w.must(l.ForceUnlock(w.Context(), "x"))
		for _, late := range []int64{0, rules.Late.Milliseconds(), 0} { // an answer may be lost
			was, err := l.sendLeave(w.Context(), l.nodes[0].server, 0, l.leaveCommand(l.nodes[0], l.keysOf(keys, ticket), ticket.String(), lease.Token(), late, itself))
			w.must(err)
			if was != lua.Forced {
				w.Errorf("it says %s", was)
			}
			mark := l.mark(keys, ticket)
			if left := w.direct[0].PTTL(w.Context(), mark).Val(); late > 0 && left < rules.Late-lua.Liveness {
				w.Errorf("late requests are refused for %v", left)
			}
			w.must(w.direct[0].PExpire(w.Context(), mark, 20*time.Second).Err())
		}
		w.is(lease.Unlock(w.Context()), ErrLost)
	})
}

func TestWithoutAMajorityAHoldIsLostBeforeItsLeaseEnds(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker(WithLease(calm))
	lease := w.has(l, "x")
	w.servers[0].Kill()
	w.must(lease.Err())
	w.servers[1].Kill()
	gone, over := time.Now(), make(chan time.Time, 1)
	time.AfterFunc(calm, func() { over <- time.Now() }) // as late as this timer, a busy machine may be
	select {
	case <-lease.Done():
	case <-time.After(patience):
		w.Fatal("it is trusted for ever")
	}
	// A stall that covers both ends may have either told first. The Deadline is judged below.
	if told := time.Now(); told.After((<-over).Add(time.Second)) {
		w.Errorf("that it is lost is told %v after the Kill", told.Sub(gone))
	}
	// The last renewal with a majority was sent before. A tenth of the lease is not trusted.
	if end := lease.Deadline(); end.After(gone.Add(calm * 9 / 10)) {
		w.Errorf("it was trusted for %v after the Kill", end.Sub(gone))
	}
	w.is(lease.Err(), ErrLost)
	w.is(lease.Unlock(context.Background()), ErrLost)
}

func TestAHoldIsRenewedAndALeaseIsFixed(t *testing.T) {
	w := realNodes(t, 3)
	a, b := w.locker(WithLease(calm)), w.locker()
	first := time.Now()
	lease := w.has(a, "x")
	next := w.queues(b, "x")
	w.until("it is renewed", func() bool { return lease.Deadline().After(first.Add(2 * calm)) })
	w.must(lease.Err())
	if len(next) > 0 {
		w.Error("somebody else has it")
	}
	w.unlock(lease)
	w.unlock(w.gets(next))
	fixed := w.has(a, "x", LeaseFor(calm))
	next = w.queues(b, "x")
	<-fixed.Done()
	w.unlock(w.gets(next))
	w.is(fixed.Unlock(context.Background()), ErrLost)
	w.nothing()
}

func TestAWaiterWithoutAMajorityHoldsUpNobodyWithOne(t *testing.T) {
	w := realNodes(t, 3)
	lease := w.has(w.locker(), "x")
	// The waiter does not reach the first node, and loses the third when it has its place.
	var nodes []redis.UniversalClient
	for _, addr := range []string{"127.0.0.1:1", w.addrs[1], w.addrs[2]} { // nobody listens at port 1
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	apart := New(nodes, WithSet(setOf([]redis.UniversalClient{w.direct[0], w.direct[1], w.direct[2]})))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { _ = apart.Close() })
	first := w.asks(ctx, apart, "x")
	w.until("it waits", func() bool { return w.direct[1].ZCard(t.Context(), "quorum:queue:{x}").Val() == 2 })
	w.servers[2].Kill()
	next := w.queues(w.locker(), "x")
	w.unlock(lease)
	w.unlock(w.gets(next))
	w.servers[2].Restart()
	w.must(w.locker().Init(t.Context()))
	w.unlock(w.gets(first)) // it has not lost its turn for good
	cancel()
}

func TestAFixedLeaseIsKeptAtANodeThatGaveNoVote(t *testing.T) {
	onBoth(t, func(w *world) {
		w.must(w.direct[1].FlushAll(w.Context()).Err())
		lease := w.has(w.locker(), "x", LeaseFor(20*time.Second))
		w.until("the node keeps it for as long as the others", func() bool {
			return w.direct[1].PTTL(w.Context(), "quorum:lock:{x}").Val() > 10*time.Second
		})
		w.unlock(lease)
	})
}

func TestAHolderThatIsGoneCostsItsLease(t *testing.T) {
	w := realNodes(t, 3)
	a := w.locker()
	for slow := 0; ; slow++ {
		dead := w.locker(WithLease(brief))
		w.has(dead, "x")
		w.must(dead.Close()) // as good as dead: nothing is renewed
		began := time.Now()
		lease := w.has(a, "x")
		took := time.Since(began)
		w.unlock(lease)
		if took <= 4*brief {
			return
		}
		if slow == 3 { // up to then, the machine may have been busy
			w.Fatalf("it took %v", took)
		}
	}
}

func TestOfSeveralTriesOnAFreeLockOneSucceeds(t *testing.T) {
	onBoth(t, func(w *world) {
		lockers := []*Locker{w.locker(), w.locker(), w.locker(), w.locker()}
		slow := 0
		for range 20 {
			began := time.Now()
			var all sync.WaitGroup
			var mu sync.Mutex
			var leases []*Lease
			for _, l := range lockers {
				all.Go(func() {
					lease, err := l.TryLock(w.Context(), "x")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						leases = append(leases, lease)
					} else if !errors.Is(err, ErrHeld) && (!errors.Is(err, ErrUnreachable) || time.Since(began) < silence) {
						w.Errorf("%v", err)
					}
				})
			}
			all.Wait()
			if len(leases) == 0 && time.Since(began) > splitFor {
				if slow++; slow <= 10 { // a busy machine: no votes passed in the time that a try stands in line
					continue
				}
			}
			if len(leases) != 1 {
				w.Fatalf("%d have it\n%s", len(leases), w.dump())
			}
			w.unlock(leases[0])
		}
		w.nothing()
	})
}

func TestWhatMakesNoQuorumIsRefused(t *testing.T) {
	w := realNodes(t, 3)
	clients := func(addrs ...string) (all []redis.UniversalClient) {
		for _, addr := range addrs {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = rdb.Close() })
			all = append(all, rdb)
		}
		return all
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": w.addrs[2]}})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: w.addrs[2:]})
	t.Cleanup(func() { _ = errors.Join(ring.Close(), cluster.Close()) })
	port := func(i int) string { return w.addrs[i][len("127.0.0.1"):] }
	for what, nodes := range map[string][]redis.UniversalClient{
		"an even number":       clients(w.addrs[:2]...),
		"none":                 nil,
		"a server twice":       clients(w.addrs[0], w.addrs[1], "localhost"+port(1)),
		"a client twice":       {w.direct[0], w.direct[1], w.direct[1]},
		"no client":            {w.direct[0], w.direct[1], nil},
		"a client of no type":  {w.direct[0], w.direct[1], (*redis.Client)(nil)},
		"a client of a ring":   {w.direct[0], w.direct[1], ring},
		"a client of clusters": {w.direct[0], w.direct[1], cluster},
	} {
		t.Run(what, func(t *testing.T) {
			l := New(nodes, WithSet("test"))
			defer func() { _ = l.Close() }()
			_, locked := l.Lock(t.Context(), "x")
			_, inspected := l.Inspect(t.Context(), "x")
			for s, listed := range l.List(t.Context()) {
				if s != nil || listed == nil {
					t.Errorf("listed: %+v", s)
				}
			}
			for call, err := range map[string]error{
				"Lock": locked, "Inspect": inspected, "ForceUnlock": l.ForceUnlock(t.Context(), "x"), "Evict": l.Evict(t.Context(), "x", "y"),
			} {
				if !errors.Is(err, ErrInvalid) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, errOther) && !errors.Is(err, errTwice) {
					t.Errorf("%s: %v", call, err)
				}
			}
			t.Log(locked)
		})
	}
	other := w.locker(WithSet("another"))
	_, err := other.Lock(t.Context(), "x")
	w.is(err, errOther)
	more := w.locker(WithSet("named"))
	w.must(more.Init(t.Context())) // so it is another quorum now
	w.addrs = append(w.addrs, redistest.Start(t).Addr(), redistest.Start(t).Addr())
	_, err = w.locker(WithSet("named")).Lock(t.Context(), "x") // its majorities need not meet those of three
	w.is(err, errOther)
	w.addrs = w.addrs[:3]
	w.must(w.locker().Init(t.Context()))
	longer := w.locker(WithLongestLease(time.Hour))
	_, err = longer.Lock(t.Context(), "x")
	w.is(err, errOther)
	l := w.locker()
	_, err = l.Lock(t.Context(), "x", LeaseFor(2*time.Minute))
	w.is(err, ErrInvalid)
}

func TestANodeThatRefusesKeepsNoNewProcessFromTheLock(t *testing.T) {
	for why, refuse := range map[string]func(*redis.Client) error{
		"may not run": func(rdb *redis.Client) error {
			return rdb.Do(context.Background(), "ACL", "SETUSER", "default", "-info").Err()
		},
		"NOAUTH": func(rdb *redis.Client) error {
			return rdb.ConfigSet(context.Background(), "requirepass", "secret").Err()
		},
	} {
		t.Run(why, func(t *testing.T) {
			w := realNodes(t, 3)
			w.must(refuse(w.direct[2]))
			told := make(chan string, 100)
			l := w.locker(WithLogger(slog.New(handler(func(r slog.Record) {
				if strings.Contains(r.Message, "refuses") {
					r.Attrs(func(a slog.Attr) bool { told <- a.Value.String(); return true })
				}
			}))))
			lease := w.has(l, "x")
			next := w.queues(w.locker(), "x")
			w.unlock(lease)
			w.unlock(w.gets(next))
			w.soon("the wait for the log", func() {
				if said := <-told; !strings.Contains(said, why) {
					t.Errorf("the log says %q", said)
				}
			})

			w.must(refuse(w.direct[1]))
			began := time.Now()
			_, err := w.locker().Lock(t.Context(), "x")
			for _, part := range []string{"node 2: ", "node 3: ", why} {
				if took := time.Since(began); took > 5*time.Second || !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("where a majority refuses, after %v: %v", took, err)
				}
			}
		})
	}
}

func TestANewQuorumGrantsNothingForTheLongestLease(t *testing.T) {
	w := &world{T: t}
	fresh := realNodes(t, 3)
	w.addrs, w.direct = fresh.addrs, fresh.direct
	for _, rdb := range w.direct {
		w.must(rdb.FlushAll(t.Context()).Err())
	}
	l := w.locker(WithLongestLease(time.Second), WithLease(time.Second))
	began := time.Now()
	lease := w.has(l, "x")
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("it was had after %v", took)
	}
	w.unlock(lease)
}

func TestCallsEndInTimeAndLeaveNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.locker(), w.locker()
		w.unlock(w.has(b, "y")) // the first contact takes its time
		lease := w.has(a, "x")
		_, err := b.Lock(w.Context(), "x", WaitAtMost(3*time.Second))
		w.is(err, ErrHeld)
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Millisecond)
		_, err = b.Lock(ctx, "x")
		cancel()
		w.is(err, context.DeadlineExceeded)
		next := w.queues(b, "x")
		_, err = a.Lock(w.Context(), "x", MaxWaiters(1))
		w.is(err, ErrQueueFull)
		w.until("the others have left, and Inspect shows it", func() bool {
			state := w.looks(a)
			return state.Holder != nil && state.Holder.Owner == lease.Owner() && state.Waiting == 1
		})
		w.must(b.Close())
		w.is(w.ends(next).err, ErrClosed)
		w.must(a.ForceUnlock(w.Context(), "x"))
		<-lease.Done()
		w.is(lease.Unlock(context.Background()), ErrLost)
		w.is(a.ForceUnlock(w.Context(), "x"), ErrNotHeld)
		w.nothing()
	})
}

func TestWhoeverDiedInLineDoesNotCountForMaxWaitersWhileTheLockIsHeld(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.locker(), w.locker()
		lease := w.has(a, "x")
		next := w.queues(b, "x")
		for i := range w.direct {
			at := float64(time.Now().UnixMicro())
			w.must(w.direct[i].ZAdd(w.Context(), "quorum:queue:{x}", redis.Z{Score: at, Member: "stranger:1:10000:x"}).Err())
			w.must(w.direct[i].ZAdd(w.Context(), "quorum:waiters:{x}", redis.Z{Score: at/1000 - 1, Member: "stranger:1:10000:x"}).Err())
		}
		last := w.queues(a, "x", MaxWaiters(2))
		_, err := a.Lock(w.Context(), "x", MaxWaiters(2))
		w.is(err, ErrQueueFull)
		w.unlock(lease)
		w.unlock(w.gets(next))
		w.unlock(w.gets(last))
		w.nothing()
	})
}

// Whatever a script cannot use, it finds before it writes: a call that fails leaves nothing, and an
// Unlock that fails takes nothing.
func TestALockWithAForeignKeyIsAClearErrorAndNothingIsWritten(t *testing.T) {
	for _, held := range []bool{false, true} {
		for _, key := range []string{"lock", "queue", "waiters", "token"} {
			if held && key == "lock" {
				continue
			}
			t.Run(fmt.Sprint(key, ", held: ", held), func(t *testing.T) {
				onBoth(t, func(w *world) { w.findsForeign("quorum:"+key+":{x}", held) })
			})
		}
	}
}

func (w *world) findsForeign(key string, held bool) {
	ctx, l := w.Context(), w.locker()
	y := w.has(l, "y")
	client, _, _ := strings.Cut(y.Owner(), ":")
	w.unlock(y)
	var lease *Lease
	if held {
		lease = w.has(w.locker(), "x", LeaseFor(30*time.Second))
	}
	for _, rdb := range w.direct {
		w.must(rdb.Del(ctx, key).Err())
		w.must(rdb.RPush(ctx, key, "foreign").Err())
	}
	before := w.kept()
	if _, err := l.Lock(ctx, "x"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		w.Errorf("Lock: %v", err)
	}
	if left := w.kept(); strings.Contains(left, client) {
		w.Errorf("left:\n%s", left)
	}
	if !held {
		return
	}
	if err := lease.Unlock(ctx); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		w.Errorf("Unlock: %v", err)
	}
	if left := w.kept(); left != before {
		w.Errorf("before:\n%safter:\n%s", before, left)
	}
}

// kept is who has the votes of x, and who stands in its lines.
func (w *world) kept() (text string) {
	for i, rdb := range w.direct {
		ticket := rdb.HGet(context.Background(), "quorum:lock:{x}", "ticket").Val()
		line := rdb.ZRange(context.Background(), "quorum:queue:{x}", 0, -1).Val()
		text += fmt.Sprintf("node %d: %s %v\n", i+1, ticket, line)
	}
	return text
}

// No number follows 2^53 - 1 in a script: a token after it would be the same one.
func TestANodeWhoseTokenNoneCanFollowGivesNoVoteAndTellsNoOther(t *testing.T) {
	for _, damage := range []string{"9007199254740991", "9007199254740992", "1e300", "-1", "1.5", "foreign"} {
		t.Run(damage, func(t *testing.T) {
			onBoth(t, func(w *world) {
				l := w.locker()
				held := w.has(l, "x")
				next := w.queues(w.locker(), "x")
				damages := func(nodes ...int) {
					for _, i := range nodes {
						w.must(w.direct[i].Set(w.Context(), "quorum:token:{x}", damage, 0).Err())
					}
				}
				damages(0)
				last := held.Token()
				w.unlock(held)
				for range 3 {
					lease := w.gets(next)
					if lease.Token() <= last || lease.Token() > time.Now().Add(time.Hour).UnixMicro() {
						w.Errorf("a token of %d after %d", lease.Token(), last)
					}
					last = lease.Token()
					damages(0)
					w.unlock(lease)
					next = w.asks(w.Context(), l, "x")
				}
				w.unlock(w.gets(next))
				w.nothing() // or a late leave would write a token over the damage
				damages(0, 1)
				if _, err := l.Lock(w.Context(), "x"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE the token key quorum:token:{x}") {
					w.Errorf("where no majority can give it: %v", err)
				}
				w.nothing()
			})
		})
	}
}

func TestACallEndsIfAMajorityMayNotBeToldItsToken(t *testing.T) {
	w := realNodes(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var nodes []redis.UniversalClient
	for i, s := range w.servers {
		w.must(w.direct[i].Do(ctx, "ACL", "SETUSER", "half", "on", "nopass", "+@all", "~*", "&*").Err())
		if i < 2 {
			w.must(w.direct[i].Do(ctx, "ACL", "SETUSER", "half", "-hsetnx").Err()) // of renewals alone
		}
		w.must(w.direct[i].Set(ctx, "quorum:token:{x}", time.Now().Add(time.Minute).UnixMicro(), 0).Err())
		nodes = append(nodes, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "half", "any" }))
	}
	l := New(nodes)
	t.Cleanup(func() { _ = l.Close() })
	_, err := l.Lock(ctx, "x")
	for _, part := range []string{"node 1: ", "node 2: ", "HSETNX"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("it does not say %q: %v", part, err)
		}
	}
	if n := w.calls(0); n > 20 {
		t.Errorf("a node was asked %d times", n)
	}
	w.nothing()
}

func TestAnExtendThatAMajorityRefusesSaysAtOnceWhatTheNodesSaid(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	lease := w.has(l, "x")
	may := func(right string) {
		for _, node := range w.direct[:2] {
			w.must(node.Do(context.Background(), "ACL", "SETUSER", "default", right).Err())
		}
	}
	may("-hsetnx") // of renewals alone
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	err := lease.Extend(ctx, 45*time.Second)
	if text := fmt.Sprint(err); ctx.Err() != nil || !strings.Contains(text, "node 2: ") || !strings.Contains(text, "HSETNX") {
		t.Errorf("it says %v", err)
	}
	w.must(lease.Err()) // for now
	may("+hsetnx")
	w.must(lease.Extend(ctx, 45*time.Second))
	w.unlock(lease)
}

func TestAHoldWhoseRenewalsAMajorityRefusesLeavesNothingBehindAtTheOthers(t *testing.T) {
	w := realNodes(t, 3)
	lease := w.has(w.locker(WithLease(6*time.Second)), "x")
	w.everywhere(lease, 3)
	for _, node := range w.direct[:2] {
		w.must(node.Do(w.Context(), "ACL", "SETUSER", "default", "-hsetnx").Err()) // of renewals alone
	}
	<-lease.Done()
	ended := time.Now()
	w.is(lease.Unlock(context.Background()), ErrLost)
	w.until("the third node has no vote", func() bool { return w.direct[2].Exists(w.Context(), "quorum:lock:{x}").Val() == 0 })
	if took := time.Since(ended); took > 3*time.Second {
		t.Errorf("it kept its vote for %v, as long as it had prolonged it", took)
	}
}

// As after a PERSIST, or a RESTORE by hand.
func TestAVoteWithoutAnEndEndsAfterTheLongestLeaseAtTheLatest(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		keys, node := w.keys(l, "x"), w.direct[0]
		w.must(node.HSet(w.Context(), keys.Record(), "ticket", "gone:1:30000::", "token", 1, "since", 1, "decided", 1).Err())
		lease := w.has(l, "x") // of two votes: the request to the third node may be on its way
		w.until("it ends", func() bool {
			left := node.PTTL(w.Context(), keys.Record()).Val()
			return left > 0 && left <= l.most
		})
		w.must(node.Del(w.Context(), keys.Record()).Err())
		w.unlock(lease)
	})
}

func TestWhoMayNotSetTheEndOfAVoteLeavesNoneBehind(t *testing.T) {
	w := realNodes(t, 3)
	for _, node := range w.direct {
		w.must(node.Do(w.Context(), "ACL", "SETUSER", "default", "-pexpire").Err())
	}
	if lease, err := w.locker().TryLock(w.Context(), "x"); err == nil {
		t.Errorf("%v has the lock", lease)
	}
	for i, node := range w.direct {
		if n := node.Exists(w.Context(), "quorum:lock:{x}").Val(); n > 0 {
			t.Errorf("node %d keeps its vote", i+1)
		}
		w.must(node.Do(w.Context(), "ACL", "SETUSER", "default", "+pexpire").Err())
	}
	w.unlock(w.has(w.locker(), "x"))
}

func TestALockerWithWrongNodesLeavesANodeThatHasLostAllToItsQuorum(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		w.has(l, "x")
		w.must(w.direct[0].FlushAll(w.Context()).Err())
		wrong := w.locker(WithSet("another"))
		_, err := wrong.Lock(w.Context(), "y")
		w.is(err, errOther)
		w.must(wrong.Close()) // which waits for all that it sends
		w.has(w.locker(), "y")
		w.until("the node rests for its own quorum", func() bool {
			all, err := l.Nodes(w.Context())
			w.must(err)
			return all[0].Set == l.set && all[0].Quarantine > 0
		})
	})
}

func TestANodeThatHasLostAllWhileALockIsHeldRestsFromTheNextRenewalOn(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker(WithLease(3 * time.Second))
		lease := w.has(l, "x")
		w.must(w.direct[0].FlushAll(w.Context()).Err())
		w.until("it rests", func() bool {
			all, err := l.Nodes(w.Context())
			w.must(err)
			return all[0].Set == l.set && all[0].Quarantine > 0
		})
		w.unlock(lease)
	})
}

// A Locker of other nodes may hear late from one of ours.
func TestALockerWithWrongNodesWaitsForAllBeforeItTellsANodeOfThem(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.nodes[0].FlushAll()
		h.nodes[2].FlushAll()
		wrong := h.locker(WithSet("another"))
		h.on(wrong, 1, meetScript, 0, 2*silence)
		if _, err := wrong.TryLock(h.Context(), "x"); !errors.Is(err, errOther) {
			h.Errorf("it says %v", err)
		}
		_ = wrong.Close()
		if h.nodes[0].Exists("quorum:node") || h.nodes[2].Exists("quorum:node") {
			h.Error("it has told a node")
		}
	})
}
