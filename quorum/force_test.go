package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// executes matches requests that execute a script.
func executes(sc lua.Script) func(args []string) bool {
	hash := sc.Command(nil)[1].(string)
	return func(args []string) bool { return slices.Contains(args, hash) }
}

// through is a Locker that reaches its nodes through proxies.
func (w *world) through(options ...Option) (*Locker, []*faultproxy.Proxy) {
	w.Helper()
	var proxies []*faultproxy.Proxy
	var nodes, direct []redis.UniversalClient
	for i, addr := range w.addrs {
		p := faultproxy.New(w, addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1})
		w.Cleanup(func() { _ = rdb.Close() })
		proxies, nodes, direct = append(proxies, p), append(nodes, rdb), append(direct, w.direct[i])
	}
	l := New(nodes, append([]Option{WithSet(setOf(direct))}, options...)...)
	w.Cleanup(func() { _ = l.Close() })
	return l, proxies
}

// A call with a majority of votes has to tell nodes a token before it has the lock, and is forced
// meanwhile.
func TestACallThatIsForcedBeforeItKnowsThatItHasTheLockDoesNotGetIt(t *testing.T) {
	w := realNodes(t, 3)
	for _, rdb := range w.direct { // as after a ForceUnlock, or where clocks differ
		w.must(rdb.Set(t.Context(), "quorum:token:{x}", time.Now().Add(time.Minute).UnixMicro(), 0).Err())
	}
	l, proxies := w.through()
	b := w.locker()
	w.unlock(w.has(b, "y")) // votes last for a claim: too short for a first contact on a busy machine
	goOn := make(chan struct{})
	free := sync.OnceFunc(func() { close(goOn) })
	defer free()
	told := make([]*faultproxy.Handle, len(proxies))
	for i, p := range proxies {
		told[i] = p.Add(faultproxy.Rule{Match: executes(renewScript), Times: 1, Action: faultproxy.RewriteReply(func(reply []byte) []byte {
			<-goOn
			return reply
		})})
	}
	first := w.asks(t.Context(), l, "x")
	for _, h := range told {
		h.WaitHit(t, 1, patience)
	}
	w.until("a majority of votes is the call's", func() bool {
		state, err := b.Inspect(t.Context(), "x")
		return err == nil && state.Holder != nil
	})
	w.must(b.ForceUnlock(t.Context(), "x"))
	lease := w.has(b, "x")
	free()
	o := w.ends(first)
	if o.err == nil {
		t.Errorf("both have it: %v, %v", o.lease.Err(), lease.Err())
	} else if !errors.Is(o.err, ErrEvicted) {
		t.Error(o.err)
	}
	w.unlock(lease)
	w.nothing()
}

func TestAWaiterIsEvictedOnceAndNobodyWhoHasTheLock(t *testing.T) {
	onBoth(t, func(w *world) {
		a, b := w.locker(), w.locker()
		lease := w.has(a, "x")
		first, second := w.queues(b, "x", Note("first")), w.queues(b, "x", Note("second"))
		state := w.looks(a)
		gone, next := state.Waiters[0].ID, state.Waiters[1].ID
		if state.Waiters[0].Note == "second" { // a node has yet to be told the place of the first
			gone, next = next, gone
		}
		w.must(a.Evict(w.Context(), "x", gone))
		w.is(w.ends(first).err, ErrEvicted)
		w.until("no node shows it", func() bool {
			state, err := a.Inspect(w.Context(), "x")
			return err == nil && len(state.Waiters) == 1
		})
		w.until("it is in no line", func() bool { return errors.Is(a.Evict(w.Context(), "x", gone), ErrNotWaiting) })
		w.unlock(lease)
		had := w.gets(second)
		w.is(a.Evict(w.Context(), "x", next), ErrNotWaiting)
		w.must(had.Err())
		w.unlock(had)
		w.nothing() // a node whose answer Unlock did not need may show its ticket for a moment
		w.is(a.Evict(w.Context(), "x", next), ErrNotWaiting)
		w.is(a.ForceUnlock(w.Context(), "x"), ErrNotHeld)
		w.nothing()
	})
}

func TestNoTokenFallsWhenAllNodesForgetAForce(t *testing.T) {
	onBoth(t, func(w *world) {
		ctx := context.Background()
		forget := func() {
			for _, rdb := range w.direct {
				w.must(rdb.FlushAll(ctx).Err())
			}
		}
		forget()
		a := w.locker(WithLongestLease(2*time.Second), WithLease(2*time.Second)) // shorter than a claim
		w.must(a.Init(ctx))
		lease := w.has(a, "x")
		w.must(a.ForceUnlock(ctx, "x"))
		<-lease.Done()
		second := w.has(a, "x")
		w.unlock(second)
		forget()
		third := w.has(a, "x")
		if third.Token() <= second.Token() {
			w.Errorf("token %d after %d", third.Token(), second.Token())
		}
		w.unlock(third)
	})
}

// A node is down, and another one's line is full. The call is the first in the line of the third,
// and cannot have a majority.
func TestACallThatFindsTheLineFullAndAnotherNodeAwayKeepsNobodyFromTheLock(t *testing.T) {
	w := realNodes(t, 3)
	l, proxies := w.through()
	a, b := w.locker(), w.locker()
	w.unlock(w.has(l, "y"))
	w.unlock(w.has(b, "y")) // it need not meet the nodes while a request is held, or a node counts as silent
	lease := w.has(a, "x")
	w.servers[2].Kill()
	first := proxies[0].Add(faultproxy.Rule{Match: executes(enterScript), Times: 1, Action: faultproxy.Observe()})
	late := proxies[1].Add(faultproxy.Rule{Match: executes(enterScript), Action: faultproxy.HoldRequest()})
	bounded := w.asks(t.Context(), l, "x", MaxWaiters(1))
	first.WaitExecuted(t, 1, patience)
	late.WaitHit(t, 1, patience)
	next, last := w.queues(b, "x"), w.queues(a, "x")
	late.Remove()
	late.Release()
	late.WaitExecuted(t, late.Hits(), patience)
	w.unlock(lease)
	w.is(w.ends(bounded).err, ErrQueueFull)
	w.unlock(w.gets(next))
	w.unlock(w.gets(last))
}

func TestAWaiterThatIsGrantedTheLockWhileItIsEvictedKeepsIt(t *testing.T) {
	onBoth(t, func(w *world) {
		a := w.locker()
		admin, proxies := w.through()
		lease := w.has(a, "x")
		next := w.queues(a, "x")
		state := w.looks(admin)
		var late []*faultproxy.Handle
		for _, p := range proxies {
			late = append(late, p.Add(faultproxy.Rule{Match: executes(leaveScript), Times: 1, Action: faultproxy.HoldRequest()}))
		}
		evicts := make(chan error, 1)
		go func() { evicts <- admin.Evict(w.Context(), "x", state.Waiters[0].ID) }()
		for _, l := range late {
			l.WaitHit(w, 1, patience)
		}
		w.unlock(lease)
		lease = w.gets(next)
		for _, l := range late {
			l.Release()
		}
		w.is(<-evicts, ErrNotWaiting)
		w.must(lease.Err())
		w.unlock(lease)
		w.nothing()
	})
}

func TestAWaiterWithAVoteGivesItBackWhenItIsEvicted(t *testing.T) {
	w := realNodes(t, 3)
	a, b := w.locker(), w.locker()
	for i, rdb := range w.direct { // one node grants, two are another's
		if i > 0 {
			w.must(rdb.HSet(w.Context(), "quorum:lock:{x}", "ticket", "nobody:1:60000::", "token", 1, "since", 1, "decided", 1).Err())
			w.must(rdb.PExpire(w.Context(), "quorum:lock:{x}", time.Minute).Err())
		}
	}
	waits := w.queues(b, "x")
	var state *State
	w.until("the first node has granted it", func() (granted bool) {
		state = w.looks(a)
		return state.Nodes[0].Vote != nil && len(state.Waiters) == 1
	})
	w.must(a.Evict(w.Context(), "x", state.Waiters[0].ID))
	w.is(w.ends(waits).err, ErrEvicted)
	w.until("the vote is given back", func() bool { return w.direct[0].Exists(w.Context(), "quorum:lock:{x}").Val() == 0 })
}

func TestAHolderThatWasEvictedWhereItWaitedGetsTheVoteThereLater(t *testing.T) {
	w := realNodes(t, 3)
	const record = "quorum:lock:{x}"
	third := w.direct[2] // has given its vote to somebody else
	w.must(third.HSet(w.Context(), record, "ticket", "nobody:1:60000::", "token", 1, "since", 1, "decided", 1).Err())
	w.must(third.PExpire(w.Context(), record, time.Minute).Err())
	a, admin := w.locker(WithLease(3*time.Second)), w.locker()
	lease := w.has(a, "x")
	w.until("it waits there", func() bool { return third.ZCard(w.Context(), "quorum:queue:{x}").Val() == 1 })
	keys, err := admin.core.Ready(w.Context(), "x")
	w.must(err)
	a.mu.Lock()
	var ticket lua.Ticket
	for _, c := range a.calls {
		ticket = c.ticket
	}
	a.mu.Unlock()
	was, err := admin.leaveFor(w.Context(), 2, keys, ticket, rules.Late.Milliseconds(), evicted)
	w.must(err)
	if was != lua.Waited {
		t.Fatalf("%q", was)
	}
	w.must(third.Del(w.Context(), record).Err())
	w.until("it has that vote", func() bool { return third.HGet(w.Context(), record, "ticket").Val() == ticket.String() })
	w.unlock(lease)
}

func TestAWaiterThatDidNotHearOfItsEvictionIsToldWhenItAsksAgain(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		a, b := h.locker(), h.locker()
		lease := h.has(a, "x")
		waits := make(chan error, 1)
		go func() {
			_, err := b.Lock(h.Context(), "x")
			waits <- err
		}()
		time.Sleep(time.Second)
		b.mu.Lock()
		for _, c := range b.calls { // one node is as after an eviction
			_, _ = h.nodes[0].ZRem(c.Keys.Queue(), c.ticket.String())
			_, _ = h.nodes[0].ZRem(c.Keys.Waiters(), c.ticket.String())
			_ = h.nodes[0].Set(b.mark(c.Keys, c.ticket), "evicted")
		}
		b.mu.Unlock()
		time.Sleep(2 * beatEvery)
		select {
		case err := <-waits:
			if !errors.Is(err, ErrEvicted) {
				h.Errorf("it says %v", err)
			}
		default:
			h.Error("it waits")
		}
		if err := lease.Unlock(context.Background()); err != nil {
			h.Error(err)
		}
	})
}

func TestACallThatWasEvictedGivesItsVoteBackWhileItsCallbackRuns(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		a, b := h.locker(), h.locker()
		for i := range 2 {
			h.gives(1+i, a, "x")
		}
		goOn, waits := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := b.Lock(h.Context(), "x", OnQueued(func(int) { <-goOn }))
			waits <- err
		}()
		time.Sleep(time.Second)
		if !h.nodes[0].Exists("quorum:lock:{x}") {
			h.Fatal("it has no vote")
		}
		b.mu.Lock()
		var id string
		for _, c := range b.calls {
			id = c.ticket.ID()
		}
		b.mu.Unlock()
		if err := a.Evict(h.Context(), "x", id); err != nil {
			h.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		if h.nodes[0].Exists("quorum:lock:{x}") {
			h.Error("it has the vote")
		}
		close(goOn)
		if err := <-waits; !errors.Is(err, ErrEvicted) {
			h.Errorf("it says %v", err)
		}
	})
}

// The waiter has a majority of the votes when it is told, and nobody knows yet whether it heard of
// that first, and has the lock, or gives the votes back.
func TestAWaiterThatWasToldOfItsEvictionHasTheLockOnlyIfANodeKnowsThat(t *testing.T) {
	for what, does := range map[string]struct {
		then func(w *world, leaves func())
		says error
	}{
		"it gives its votes back": {func(_ *world, leaves func()) { leaves() }, nil},
		"it has the lock": {func(w *world, _ func()) {
			w.must(w.direct[2].HSet(w.Context(), "quorum:lock:{x}", "decided", "1").Err())
		}, ErrNotWaiting},
	} {
		t.Run(what, func(t *testing.T) {
			w := realNodes(t, 3)
			l := w.locker()
			admin, proxies := w.through()
			w.unlock(w.has(admin, "y"))
			keys := w.keys(l, "x")
			holder, waiter := l.core.Ticket(&engine.Request{Lease: time.Minute}), l.core.Ticket(&engine.Request{Lease: time.Minute})
			leaves := func(ticket lua.Ticket) {
				for i := range l.nodes {
					_, err := l.leaveFor(w.Context(), i, keys, ticket, 0, itself)
					w.must(err)
				}
			}
			for _, ticket := range []lua.Ticket{holder, waiter} {
				for i, rdb := range w.direct {
					w.enters(rdb, l, i, keys, ticket)
				}
			}
			w.until("nothing is under way", admin.idle) // as a late leave of y
			var late, again []*faultproxy.Handle
			for _, p := range proxies {
				late = append(late, p.Add(faultproxy.Rule{Match: executes(leaveScript), Times: 1, Action: faultproxy.HoldRequest()}))
				again = append(again, p.Add(faultproxy.Rule{Match: executes(leaveScript), Action: faultproxy.Observe()}))
			}
			evicts := make(chan error, 1)
			go func() { evicts <- admin.Evict(w.Context(), "x", waiter.ID()) }()
			for _, h := range late {
				h.WaitHit(t, 1, patience)
			}
			leaves(holder)
			for _, h := range late {
				h.Release()
			}
			w.until("the waiter is told once more", func() bool { return again[0].Hits() > 1 || len(evicts) > 0 })
			if len(evicts) > 0 {
				t.Fatalf("while nobody knows, Evict says %v", <-evicts)
			}
			does.then(w, func() { leaves(waiter) })
			if err := <-evicts; !errors.Is(err, does.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// A holder that is cut off hears of the force only with its next renewal.
func TestAForceIsRememberedForAsLongAsItsHolderMayTrustTheLock(t *testing.T) {
	inFakeTime(t, 3, func(h *hushed) {
		const longest = 10 * time.Minute
		l := h.afresh(WithLongestLease(longest))
		h.has(l, "x")
		if err := l.ForceUnlock(h.Context(), "x"); err != nil {
			h.Fatal(err)
		}
		for i, node := range h.nodes {
			kept := time.Duration(0)
			for _, key := range node.Keys() {
				if text, _ := node.Get(key); text == "forced" {
					kept = node.TTL(key)
				}
			}
			if kept < longest-time.Second {
				h.Errorf("node %d remembers it for %v", i+1, kept)
			}
		}
	})
}
