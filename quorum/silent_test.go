package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// atMost is how long a node that falls silent may keep a call: package's promise Q5.
const atMost = 300 * time.Millisecond

// hushed are embedded nodes in fake time, which can fall silent.
type hushed struct {
	*testing.T
	nodes []*pipes.Server
	reads time.Duration // how long clients wait for an answer; 0: as long as is usual
	obeys bool          // clients obey deadlines, so callers may send themselves

	mu     sync.Mutex // guards what follows
	silent []bool
	dark   []bool   // requests break their connections, and dials wait until they are given up
	unread string   // no node reads a request with this text; empty: they read all
	epoch  int      // how often all connections were lost
	held   []func() // what nodes have not read yet
}

// inFakeTime runs a test in a bubble, on n nodes of a new quorum.
func inFakeTime(t *testing.T, n int, test func(h *hushed)) {
	t.Helper()
	bubbles.Test(t, func(t *testing.T) {
		h := &hushed{T: t, silent: make([]bool, n), dark: make([]bool, n)}
		t.Cleanup(h.dials)
		for range n {
			h.nodes = append(h.nodes, pipes.New(t))
		}
		if err := h.locker().Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(h)
	})
}

// hush has nodes take what comes and answer nothing, until the test ends.
func (h *hushed) hush(nodes ...int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range nodes {
		h.silent[i] = true
	}
	h.Cleanup(h.answers)
}

// darken has a node be a machine that is gone.
func (h *hushed) darken(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dark[i] = true
}

// dials waits for go-redis, which dials on though its client is closed. That lasts for some seconds,
// or for half a minute if a node is dark.
func (h *hushed) dials() {
	limit := 5 * time.Second
	if slices.Contains(h.dark, true) {
		limit = time.Minute
	}
	time.Sleep(limit)
}

// answers has nodes read what they have not read, and answer.
func (h *hushed) answers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.silent)
	for _, f := range h.held {
		f()
	}
	h.held = nil
}

// ignore sets unread.
func (h *hushed) ignore(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread = text
}

// disconnects has all connections that are open now take what is sent, and pass nothing on: what
// lies between has forgotten them.
func (h *hushed) disconnects() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
}

// mute is a connection to a node that may be silent.
type mute struct {
	net.Conn
	h     *hushed
	i     int
	epoch int // when it was opened
}

func (m mute) Write(p []byte) (int, error) {
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	if m.h.dark[m.i] {
		if !bytes.Contains(p, []byte("evalsha")) { // a subscription: go-redis would dial under its mutex
			return len(p), nil
		}
		_ = m.Conn.Close()
		return 0, net.ErrClosed
	}
	if m.epoch != m.h.epoch {
		return len(p), nil
	}
	if !m.h.silent[m.i] && (m.h.unread == "" || !bytes.Contains(p, []byte(m.h.unread))) {
		return m.Conn.Write(p)
	}
	p = bytes.Clone(p)
	m.h.held = append(m.h.held, func() { _, _ = m.Conn.Write(p) })
	return len(p), nil
}

func (h *hushed) locker(options ...Option) *Locker {
	h.Helper()
	var clients []redis.UniversalClient
	for i, mini := range h.nodes {
		rdb := redis.NewClient(&redis.Options{
			Addr: fmt.Sprint("127.0.0.1:", i+1), MaxRetries: -1, ReadTimeout: h.reads, ContextTimeoutEnabled: h.obeys, // never dialled
			PoolSize: 100, // go-redis waits for a pool that is used up with timers of other bubbles
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				h.mu.Lock()
				epoch, dark := h.epoch, h.dark[i]
				h.mu.Unlock()
				if dark {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				c, err := mini.Dial(ctx, network, addr)
				return mute{c, h, i, epoch}, err
			},
		})
		h.Cleanup(func() { _ = rdb.Close() })
		clients = append(clients, rdb)
	}
	l := New(clients, append(options, WithLogger(slog.New(slog.DiscardHandler)))...)
	h.Cleanup(func() { _ = l.Close() })
	return l
}

// afresh makes the nodes another quorum, that of the Locker which it returns.
func (h *hushed) afresh(options ...Option) *Locker {
	h.Helper()
	for _, node := range h.nodes {
		node.FlushAll()
	}
	l := h.locker(options...)
	if err := l.Init(h.Context()); err != nil {
		h.Fatal(err)
	}
	return l
}

func (h *hushed) has(l *Locker, name string, options ...LockOption) *Lease {
	h.Helper()
	lease, err := l.Lock(h.Context(), name, options...)
	if err != nil {
		h.Fatal(err)
	}
	return lease
}

// asksItself has callers of that Locker, whose clients obey, send to that node from their own
// goroutines: it seems to answer sooner than the others.
func (h *hushed) asksItself(l *Locker, i int) {
	for k, n := range l.nodes {
		n.mu.Lock()
		n.usual = time.Second
		if k == i {
			n.usual = -1
		}
		n.mu.Unlock()
	}
}

// within fails if f takes longer than a silent node may keep a call.
func (h *hushed) within(what string, limit time.Duration, f func()) {
	h.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		h.Errorf("%s took %v", what, took)
	}
}

func TestAnUnlockWaitsOnceForANodeThatFallsSilentThoughAnotherGaveNoVote(t *testing.T) {
	for silent := range 2 {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker()
			h.nodes[2].FlushAll() // it grants nothing for a minute
			lease := h.has(l, "x")
			h.hush(silent)
			h.within("an Unlock", atMost, func() {
				if err := lease.Unlock(context.Background()); err != nil {
					h.Error(err)
				}
			})
		})
	}
}

func TestAnUnlockWaitsForNoNodeThatIsAwayThoughAnotherTookTheVoteByForce(t *testing.T) {
	for forced := range 2 {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker()
			h.has(l, "y")
			h.hush(2)
			time.Sleep(silence)
			lease := h.has(l, "x")
			h.nodes[forced].Del("quorum:lock:{x}")
			h.within("an Unlock", atMost, func() {
				if err := lease.Unlock(context.Background()); !errors.Is(err, ErrLost) {
					h.Errorf("it says %v", err)
				}
			})
		})
	}
}

func TestAnUnlockThatNoMajorityHearsSaysSoAndGoesOn(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		lease := h.has(l, "x")
		h.hush(0, 1)
		short, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		h.within("an Unlock", 2*time.Second, func() {
			if err := lease.Unlock(short); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLost) {
				h.Errorf("it says %v", err)
			}
		})
		h.answers()
		h.within("the second Unlock", time.Second, func() {
			if err := lease.Unlock(context.Background()); err != nil {
				h.Errorf("it says %v", err)
			}
		})
		h.within("the next Lock", time.Second, func() { h.has(other, "x") })
	})
}

func TestAnUnlockWaitsForAMajorityThatIsSilentForAMoment(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.hush(0, 1)
		time.AfterFunc(time.Second, h.answers)
		h.within("an Unlock", time.Second+atMost, func() {
			if err := lease.Unlock(context.Background()); err != nil {
				h.Errorf("it says %v", err)
			}
		})
	})
}

func TestAnUnlockOfAClosedLockerWaitsForAMajorityThatIsSilentForAMoment(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.hush(0, 1)
		time.AfterFunc(400*time.Millisecond, h.answers)
		go func() { _ = l.Close() }()
		if err := lease.Unlock(context.Background()); err != nil {
			h.Errorf("it says %v", err)
		}
	})
}

func TestANodeThatRefusesMakesNoUnlockFailWhoseMajorityIsSlow(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.nodes[0].SetError("NOPERM not this one")
		for i := range 2 {
			h.on(l, 1+i, leaveScript, 0, 400*time.Millisecond)
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Errorf("it says %v", err)
		}
		h.nodes[0].SetError("")
	})
}

func TestAnUnlockThatNoMajorityHearsBeforeTheLeaseEndsIsAnError(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x", LeaseFor(2*time.Second))
		h.hush(0, 1)
		if err := lease.Unlock(context.Background()); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrLost) {
			h.Errorf("it says %v", err)
		}
	})
}

func TestTheFirstTryOfAProcessEndsThoughAMajorityIsSilent(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.reads = time.Minute
		l := h.locker()
		h.hush(0, 1)
		h.within("a TryLock", lua.MostKept+atMost, func() {
			_, err := l.TryLock(context.Background(), "x")
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "node 2: no answer") {
				h.Errorf("it says %v", err)
			}
		})
	})
}

func TestAHolderWithTwoVotesIsSeenAndForcedThoughANodeThatGaveOneIsAway(t *testing.T) {
	for k, options := range [][]LockOption{nil, nil, {LeaseFor(lua.Claim)}, {LeaseFor(lua.Claim)}} {
		away := k % 2
		inFakeTime(t, 3, func(h *hushed) {
			l, admin := h.locker(), h.locker()
			h.nodes[2].SetError("LOADING a vote of this one is not to be had")
			lease := h.has(l, "x", options...)
			time.Sleep(1500 * time.Millisecond) // its nodes hear that it has a majority
			h.hush(away)
			h.nodes[2].SetError("")
			s, err := admin.Inspect(h.Context(), "x")
			if err != nil || s.Holder == nil || s.Holder.Token != lease.Token() || s.Holder.Undecided {
				h.Fatalf("got %+v, %v", s, err)
			}
			if err := admin.Evict(h.Context(), "x", s.Holder.Owner); !errors.Is(err, ErrNotWaiting) {
				h.Errorf("it says %v", err)
			}
			if err := admin.ForceUnlock(h.Context(), "x"); err != nil {
				h.Error(err)
			}
			h.within("the holder's loss", time.Second, func() { <-lease.Done() })
		})
	}
}

func TestTheFirstCallOfAProcessWaitsOnceForANodeThatIsSilent(t *testing.T) {
	for silent := range 3 {
		inFakeTime(t, 3, func(h *hushed) {
			l := h.locker()
			h.hush(silent)
			h.within("a Lock", atMost, func() { h.has(l, "x") })
		})
	}
}

func TestACallDoesNotWaitForANodeThatIsSilentAlready(t *testing.T) {
	for silent := range 3 {
		inFakeTime(t, 3, func(h *hushed) {
			h.obeys = true
			l := h.locker()
			lease := h.has(l, "x")
			h.asksItself(l, silent)
			h.hush(silent)
			other := h.has(l, "y", WaitAtMost(silence/2)) // it finds out
			time.Sleep(silence + time.Millisecond)
			for what, f := range map[string]func() error{
				"an Unlock": func() error { return lease.Unlock(context.Background()) },
				"another":   func() error { return other.Unlock(context.Background()) },
				"a Lock":    func() error { _, err := l.Lock(h.Context(), "z"); return err },
				"a TryLock": func() error { _, err := l.TryLock(h.Context(), "w"); return err },
				"a Do":      func() error { return l.Do(h.Context(), "v", func(context.Context, *Lease) error { return nil }) },
			} {
				h.within(what, 10*time.Millisecond, func() {
					if err := f(); err != nil {
						h.Errorf("%s: %v", what, err)
					}
				})
			}
		})
	}
}

// gives has one node give its vote to a call that is not decided, and that nobody renews.
func (h *hushed) gives(i int, l *Locker, name string) {
	h.Helper()
	keys, err := lua.NewKeys(l.prefix, name)
	if err == nil {
		ticket := l.core.Ticket(&engine.Request{Lease: time.Minute})
		_, err = l.nodes[i].run(h.Context(), enterScript,
			[]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token(), l.nodeKey, l.mark(keys, ticket)},
			ticket.String(), l.nodes[i].arg, l.most.Milliseconds())
	}
	if err != nil {
		h.Fatal(err)
	}
}

func TestAWaitThatEndsNamesTheNodesThatWereAway(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "y")
		h.hush(0)
		h.hush(2)
		for _, option := range []LockOption{WaitAtMost(5 * time.Second), WaitAtMost(time.Hour)} {
			ctx, cancel := context.WithTimeout(h.Context(), 10*time.Second)
			_, err := l.Lock(ctx, "x", option)
			cancel()
			var waited *WaitError
			if !errors.As(err, &waited) || waited.Failure == nil {
				h.Fatalf("%v", err)
			}
			if text := waited.Failure.Error(); !strings.Contains(text, "node 1: ") || strings.Contains(text, "node 2: ") || !strings.Contains(text, "node 3: ") {
				h.Errorf("it says %s", text)
			}
		}
	})
}

func TestARefusalAfterAWaitNamesTheNodesThatWereAwayIfNoMajorityWasLeft(t *testing.T) {
	for _, away := range [][]int{{0}, {0, 2}} {
		inFakeTime(t, 3, func(h *hushed) {
			l, other := h.locker(), h.locker()
			lease := h.has(other, "x")
			waits := make(chan error, 1)
			go func() {
				_, err := l.Lock(h.Context(), "x", WaitAtMost(10*time.Second))
				waits <- err
			}()
			time.Sleep(time.Second)
			for _, i := range away {
				h.hush(i)
			}
			var held *HeldError
			if err := <-waits; !errors.As(err, &held) || held.Owner == "" || (held.Failure != nil) != (len(away) == 2) {
				h.Fatalf("%v away: %v", away, err)
			}
			for _, i := range away {
				if name := fmt.Sprintf("node %d: ", i+1); held.Failure != nil && !strings.Contains(held.Error(), name) {
					h.Errorf("it says %v, and not %s", held, name)
				}
			}
			_ = lease.Unlock(h.Context()) // it may be lost
		})
	}
}

func TestTheHeartbeatsOfACrowdKeepANodeForAShortTimeEach(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l, other := h.locker(), h.locker()
		var mu sync.Mutex // guards most and tickets
		most, tickets := 0, make(map[any]bool)
		l.nodes[0].rdb.(*redis.Client).AddHook(before(func(cmds ...redis.Cmder) {
			args := cmds[0].Args()
			if len(args) < 12 || args[1] != beatScript.Command(nil)[1] {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(args)-11)
			for _, ticket := range args[11:] {
				tickets[ticket] = true
			}
		}))
		lease := h.has(other, "x")
		const crowd = lua.MaxTickets + 10
		ctx, cancel := context.WithCancel(h.Context())
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { _, _ = l.Lock(ctx, "x") })
		}
		time.Sleep(2 * lua.Liveness)
		cancel()
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most > lua.MaxTickets || len(tickets) < crowd {
			h.Errorf("%d waiters have heartbeats, and one is of %d", len(tickets), most)
		}
		if err := lease.Unlock(h.Context()); err != nil {
			h.Error(err)
		}
	})
}

func TestATryWaitsOnceForANodeThatFallsSilentAndOnceForTheVotesOfTheOthers(t *testing.T) {
	for silent := range 2 {
		inFakeTime(t, 3, func(h *hushed) {
			l, other := h.locker(), h.locker()
			h.has(l, "y")
			h.gives(2, other, "x")
			h.hush(silent)
			h.within("a TryLock", atMost+splitFor, func() {
				if _, err := l.TryLock(h.Context(), "x"); !errors.Is(err, ErrHeld) {
					h.Errorf("it says %v", err)
				}
			})
		})
	}
}

func TestOfTriesThatSplitTheVotesOneSucceedsInTime(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		var lockers []*Locker
		for range 4 {
			l := h.locker()
			h.has(l, fmt.Sprint("y", len(lockers))) // the first contact
			lockers = append(lockers, l)
		}
		for range 100 {
			var all sync.WaitGroup
			var have atomic.Int32
			for _, l := range lockers {
				all.Go(func() {
					lease, err := l.TryLock(h.Context(), "x")
					if err == nil {
						have.Add(1)
						time.Sleep(2 * splitFor) // longer than any other try stands in line
						err = lease.Unlock(h.Context())
					}
					if err != nil && !errors.Is(err, ErrHeld) {
						h.Error(err)
					}
				})
			}
			all.Wait()
			if n := have.Load(); n != 1 {
				h.Fatalf("%d had it", n)
			}
		}
	})
}

// unhurried is a context that takes its time.
type unhurried struct{ context.Context }

func (u unhurried) Done() <-chan struct{} {
	time.Sleep(5 * time.Millisecond)
	return u.Context.Done()
}

func TestATryThatIsSlowToAskWaitsOnceForANodeThatFallsSilent(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.obeys = true
		l := h.locker()
		lease := h.has(l, "y")
		h.hush(0)
		_ = lease.Unlock(context.Background())
		time.Sleep(silence)
		h.has(l, "z")
		h.asksItself(l, 2)
		h.hush(1)
		h.within("a TryLock", atMost, func() {
			if _, err := l.TryLock(unhurried{h.Context()}, "x"); !errors.Is(err, ErrUnreachable) {
				h.Errorf("it says %v", err)
			}
		})
	})
}

func TestAFullLineIsSeenThoughANodeFallsSilent(t *testing.T) {
	for silent := range 2 {
		inFakeTime(t, 3, func(h *hushed) {
			l, other := h.locker(), h.locker()
			h.has(l, "y")
			for range 2 { // the second waits
				h.gives(2, other, "x")
			}
			h.hush(silent)
			h.within("a Lock", atMost, func() {
				if _, err := l.Lock(h.Context(), "x", MaxWaiters(1)); !errors.Is(err, ErrQueueFull) {
					h.Errorf("it says %v", err)
				}
			})
		})
	}
}

func TestACloseDoesNotAskASilentNodeTwice(t *testing.T) {
	w := realNodes(t, 3)
	const timeout = time.Second // of the clients
	w.has(w.locker(), "x")
	closes := func() time.Duration {
		var clients []redis.UniversalClient
		for _, addr := range w.addrs {
			rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: timeout, DialTimeout: timeout})
			t.Cleanup(func() { _ = rdb.Close() })
			clients = append(clients, rdb)
		}
		l := New(clients)
		t.Cleanup(func() { _ = l.Close() })
		w.queues(l, "x")
		w.servers[1].Pause()
		defer w.servers[1].Resume()
		began := time.Now()
		w.must(l.Close())
		return time.Since(began)
	}
	const limit = 2*timeout - timeout/4
	took := closes()
	for try := 1; try < 3 && took > limit; try++ { // a heartbeat may have gone out just before: leaves wait for it
		took = closes()
	}
	if took > limit {
		t.Errorf("it took %v", took)
	}
}

func TestAMajorityThatTakesLongerThanSilenceIsEnough(t *testing.T) {
	const slow = silence + 50*time.Millisecond
	for what, f := range map[string]func(h *hushed, l *Locker) error{
		"the first Lock": func(h *hushed, l *Locker) error {
			for i := range 2 {
				h.on(l, i, meetScript, 0, slow)
			}
			h.hush(2)
			_, err := l.Lock(h.Context(), "x")
			return err
		},
		"an Extend": func(h *hushed, l *Locker) error {
			lease := h.has(l, "x")
			for i := range 2 {
				h.on(l, i, renewScript, 0, slow)
			}
			h.hush(2)
			return lease.Extend(h.Context(), 50*time.Second)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inFakeTime(t, 3, func(h *hushed) {
				l := h.locker()
				h.within("it", slow+50*time.Millisecond, func() {
					if err := f(h, l); err != nil {
						h.Error(err)
					}
				})
			})
		})
	}
}

func TestAListWaitsForNoNodeThatFallsSilent(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "x")
		list := func() (count int) {
			for _, err := range l.List(h.Context()) {
				if count++; err != nil {
					h.Error(err)
				}
			}
			return count
		}
		list()
		h.hush(0)
		h.within("a List", atMost, func() { // of names, and of what the first is doing
			if n := list(); n != 1 {
				h.Errorf("%d locks", n)
			}
		})
	})
}

func TestAListWaitsOnceForANodeThatFallsSilentWhileItIsScanned(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		h.has(l, "x")
		h.hush(0)
		h.within("two rounds", atMost, func() {
			for range 2 {
				l.round(hush, func(i int) error {
					time.Sleep(20 * time.Millisecond) // for a page that every node has answered
					_, err := l.nodes[i].run(h.Context(), nodeScript, []string{l.nodeKey}, l.most.Milliseconds())
					return err
				})
			}
		})
	})
}

func TestWhoLooksWaitsForAMajorityThoughANodeFailsAtOnce(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		l := h.locker()
		lease := h.has(l, "x")
		h.nodes[0].SetError("NOPERM not this one")
		for i := range 2 {
			h.on(l, 1+i, inspectScript, 0, 300*time.Millisecond)
		}
		state, err := l.Inspect(h.Context(), "x")
		if err != nil || state.Holder.Token != lease.Token() {
			h.Errorf("got %+v, %v", state, err)
		}
		for s, err := range l.List(h.Context()) {
			if err != nil || s.Holder.Token != lease.Token() {
				h.Errorf("got %+v, %v", s, err)
			}
		}
		h.nodes[0].SetError("")
	})
}

func TestAListEndsThoughItsClientsWaitForEverAndAMajorityIsSilent(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.reads = -1
		l := h.locker()
		h.has(l, "x")
		list := func() (err error) {
			for _, e := range l.List(h.Context()) {
				err = errors.Join(err, e)
			}
			return err
		}
		if err := list(); err != nil {
			h.Fatal(err)
		}
		h.hush(1, 2)
		listed := make(chan error, 1)
		go func() { listed <- list() }()
		time.Sleep(lua.MostKept + atMost)
		select {
		case err := <-listed:
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "node 3: ") {
				h.Errorf("it says %v", err)
			}
		default:
			h.Error("it does not end")
		}
	})
}

func TestACloseEndsThoughItsClientsWaitForEverAndANodeIsSilent(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		h.reads = -1
		l := h.locker()
		lease := h.has(l, "x")
		h.hush(2)
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
		closed := make(chan struct{})
		go func() {
			_ = l.Close()
			close(closed)
		}()
		time.Sleep(3 * lua.MostKept)
		select {
		case <-closed:
		default:
			h.Error("it does not end")
		}
		h.answers()
		<-closed
	})
}

func TestAFirstCallWaitsForNoMinorityThoughANodeOfItHasLostAll(t *testing.T) {
	inFakeTime(t, 5, func(h *hushed) {
		h.nodes[0].FlushAll()
		h.hush(1)
		l := h.locker()
		h.within("the first call", 2*atMost, func() { // which meets the nodes, and then asks them
			if err := h.has(l, "x").Unlock(context.Background()); err != nil {
				h.Error(err)
			}
		})
		h.answers()
	})
}
