package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// untouched fails if there is any key at a node.
func (w *world) untouched() {
	w.Helper()
	for i, rdb := range w.direct {
		if keys := rdb.Keys(context.Background(), "*").Val(); len(keys) > 0 {
			w.Errorf("%q was written at node %d", keys, i+1)
		}
	}
}

func TestLookingAtNodesThatKnowNoQuorumWritesNothing(t *testing.T) {
	w := strangers(t)
	l := w.locker()
	look := func() *State {
		w.Helper()
		if names := w.lists(w.Context(), l); names != "" {
			t.Errorf("%q", names)
		}
		return w.looks(l)
	}
	for i, n := range look().Nodes {
		if n.Err != nil || n.Vote != nil || n.Quarantine != DefaultLongestLease {
			t.Errorf("node %d shows %+v", i+1, n)
		}
	}
	w.servers[2].Kill()
	w.until("the node is missed", func() bool { return look().Nodes[2].Err != nil })
	w.servers[2].Restart()
	w.until("the node is back", func() bool { return look().Nodes[2].Err == nil })
	w.untouched()

	w.refused(w.Context(), l) // from now on the nodes are told
	w.until("the first node was told, too, and rests", func() bool {
		s := look()
		if s.Holder != nil {
			t.Fatalf("while nodes rest, somebody has the lock: %+v", s.Holder)
		}
		return s.Nodes[0].Quarantine < DefaultLongestLease
	})
}

func TestALookAtAQuorumOfWhichANodeBelongsToAnotherOneShowsTheOthers(t *testing.T) {
	w := realNodes(t, 3)
	holder := w.locker()
	lease := w.has(holder, "x", Note("me"))
	w.until("all have voted", func() bool {
		s, err := holder.Inspect(w.Context(), "x")
		return err == nil && !slices.ContainsFunc(s.Nodes, func(n NodeView) bool { return n.Vote == nil })
	})
	w.must(w.direct[1].HSet(w.Context(), "quorum:node", "set", "theirs").Err())
	l := w.locker()
	names, s := w.lists(w.Context(), l), w.looks(l)
	if s.Holder == nil || s.Holder.Note != "me" || s.Nodes[0].Vote == nil || s.Nodes[2].Vote == nil || names != "x " {
		t.Errorf("listed is %q, and shown %+v", names, s)
	}
	w.is(s.Nodes[1].Err, errOther)
	w.until("a try is told", func() bool {
		_, err := l.TryLock(w.Context(), "x")
		other := errors.Is(err, errOther)
		if !other { // it went on without the node, which was silent when they met
			l = w.locker()
		}
		return other
	})

	w.must(w.direct[2].HSet(w.Context(), "quorum:node", "set", "theirs").Err())
	w.is(w.reached(func() (err error) {
		for _, err = range l.List(w.Context()) {
		}
		return err
	}), errOther)
	last := w.locker()
	err := w.reached(func() error { _, err := last.Inspect(w.Context(), "x"); return err })
	w.is(err, errOther)
	if text := err.Error(); !strings.Contains(text, "1 of 3 nodes") || !strings.Contains(text, "node 3: ") {
		t.Error(text)
	}
	for i, n := range holder.nodes {
		w.must(w.direct[i].HSet(w.Context(), "quorum:node", "set", n.seat).Err())
	}
	w.unlock(lease)
}

func TestNodesThatRefuseAreNotSaidToBeOutOfReach(t *testing.T) {
	w := realNodes(t, 3)
	for _, rdb := range w.direct {
		w.must(rdb.Set(w.Context(), "quorum:lock:{x}", "somebody else's", 0).Err())
	}
	l := w.locker()
	err := w.reached(func() error { _, err := l.Inspect(w.Context(), "x"); return err })
	if text := fmt.Sprint(err); !strings.Contains(text, "0 of 3 nodes show it, and a majority is 2") || !strings.Contains(text, "node 3: WRONGTYPE") {
		t.Error(text)
	}
	for _, rdb := range w.direct {
		w.must(rdb.Do(w.Context(), "acl", "setuser", "default", "-scan").Err())
	}
	told := 0
	err = w.reached(func() (err error) {
		told = 0
		for _, err = range l.List(w.Context()) {
			told++
		}
		return err
	})
	if text := fmt.Sprint(err); !strings.Contains(text, "0 of 3 nodes list their locks, and") || !strings.Contains(text, "NOPERM") {
		t.Error(text)
	}
	if told != 1 {
		t.Errorf("%d things are said", told)
	}
	w.servers[1].Kill()
	w.servers[2].Kill() // they may have shown it
	_, err = l.Inspect(w.Context(), "x")
	w.is(err, ErrUnreachable)
}

func TestAForceThatAllNodesRefuseIsNotSaidToHaveFoundThemOutOfReach(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	lease := w.has(l, "x")
	w.everywhere(lease, 3)
	for _, rdb := range w.direct {
		w.must(rdb.Del(w.Context(), "quorum:waiters:{x}").Err())
		w.must(rdb.Set(w.Context(), "quorum:waiters:{x}", "somebody else's", 0).Err())
	}
	admin := w.locker()
	err := w.reached(func() error { return admin.ForceUnlock(w.Context(), "x") })
	if text := fmt.Sprint(err); !strings.Contains(text, "0 of 3 nodes have ended it, and a majority is 2") || !strings.Contains(text, "WRONGTYPE") {
		t.Error(text)
	}
	for _, rdb := range w.direct {
		w.must(rdb.Del(w.Context(), "quorum:waiters:{x}").Err())
	}
	w.unlock(lease)
}

func TestAListDoesNotPassOverALockOfWhichAMinorityHasAnotherKeyAndANodeIsAway(t *testing.T) {
	w := realNodes(t, 3)
	w.everywhere(w.has(w.locker(), "x"), 3)
	w.must(w.direct[0].Set(w.Context(), "quorum:lock:{x}", "somebody else's", 0).Err())
	w.servers[1].Kill()
	told := 0
	for s, err := range w.locker().List(w.Context()) {
		if told++; !errors.Is(err, ErrUnreachable) {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if told != 1 {
		t.Errorf("%d things are said", told)
	}
}

func TestAWaiterBehindThoseThatNodesShowIsNotSaidToBeInNoLine(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	adds := func(from, to int) {
		t.Helper()
		for _, rdb := range w.direct {
			for i := from; i <= to; i++ {
				w.must(rdb.ZAdd(w.Context(), "quorum:queue:{x}", redis.Z{Score: float64(i), Member: fmt.Sprintf("c:%d:10000::n", i)}).Err())
			}
		}
	}
	adds(1, inspected)
	w.is(l.Evict(w.Context(), "x", "c:501"), ErrNotWaiting)
	adds(inspected+1, inspected+1)
	err := l.Evict(w.Context(), "x", "c:501")
	if !errors.Is(err, ErrNotShown) || errors.Is(err, ErrNotWaiting) || !strings.Contains(err.Error(), "the first 500 of 501") {
		t.Error(err)
	}
	for _, rdb := range w.direct { // so it is shown
		w.must(rdb.ZRem(w.Context(), "quorum:queue:{x}", "c:1:10000::n").Err())
	}
	w.must(l.Evict(w.Context(), "x", "c:501"))
}

func TestANodeThatWasFlushedShowsTheVotesThatItGotSince(t *testing.T) {
	w := realNodes(t, 3)
	lease := w.has(w.locker(), "x")
	w.must(w.direct[1].FlushAll(w.Context()).Err())
	other := w.locker()
	w.until("the holder has written its vote again", func() bool {
		s := w.looks(other)
		w.must(s.Nodes[1].Err)
		return s.Nodes[1].Vote != nil && s.Nodes[1].Decided
	})
	w.unlock(lease)
}

func TestAHoldOfWhichNoNodeKnowsYetThatItIsOneIsShownAsUndecided(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	lease := w.has(l, "x")
	w.until("all nodes know that the holder is decided", func() bool {
		s := w.looks(l)
		return s.Nodes[0].Decided && s.Nodes[1].Decided && s.Nodes[2].Decided
	})
	if h := w.looks(l).Holder; h.Undecided || h.Token != lease.Token() {
		t.Errorf("token %d, and shown is %+v", lease.Token(), h)
	}
	for i, rdb := range w.direct { // as before the first renewal
		w.must(rdb.HDel(w.Context(), "quorum:lock:{x}", "decided").Err())
		w.must(rdb.HIncrBy(w.Context(), "quorum:lock:{x}", "token", int64(i)).Err())
	}
	if h := w.looks(l).Holder; h == nil || !h.Undecided || h.Owner != lease.Owner() || h.Token != lease.Token()+2 {
		t.Errorf("token %d, and shown is %+v", lease.Token(), h)
	}
	w.must(w.direct[0].HSet(w.Context(), "quorum:lock:{x}", "decided", "1").Err())
	if h := w.looks(l).Holder; h.Undecided || h.Token != lease.Token() {
		t.Errorf("token %d, and shown is %+v", lease.Token(), h)
	}
	w.unlock(lease)
}

func TestALookAtOneServerUnderTwoNamesShowsItOnce(t *testing.T) {
	w := realNodes(t, 3)
	alias := strings.Replace(w.addrs[0], "127.0.0.1", "localhost", 1)
	var nodes []redis.UniversalClient
	for _, addr := range []string{w.addrs[0], w.addrs[1], alias} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes, WithSet(setOf([]redis.UniversalClient{w.direct[0], w.direct[1], w.direct[2]})))
	t.Cleanup(func() { _ = l.Close() })
	lease := w.has(w.locker(), "x")
	once := func(s *State, err error) bool { // a node that is silent for a moment shows nothing
		if err != nil {
			return false
		}
		if n := s.Nodes[2]; n.Err == nil || n.Vote != nil {
			w.Fatalf("it shows it twice: %+v", n)
		}
		return s.Nodes[0].Err == nil && s.Nodes[1].Err == nil && errors.Is(s.Nodes[2].Err, errOther)
	}
	w.until("the look shows it once", func() bool { return once(l.Inspect(w.Context(), "x")) })
	w.until("the list shows it once", func() bool {
		for s, err := range l.List(w.Context()) {
			return once(s, err)
		}
		return false
	})
	w.unlock(lease)
}

// The leave of a call that has given up may be on its way to the last node.
func TestWhoeverStandsInLineAtOneNodeAloneIsNotShown(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	lease := w.has(l, "x")
	waits := w.queues(w.locker(), "x", Note("waits"))
	const queue = "quorum:queue:{x}"
	for i, rdb := range w.direct {
		w.must(rdb.ZAdd(w.Context(), queue, redis.Z{Score: 1, Member: "gone:1:10000::gone"}).Err())
		s := w.looks(l)
		if s.Waiting != 1 || len(s.Waiters) != 1 || s.Waiters[0].Note != "waits" {
			t.Errorf("node %d has somebody else: %d wait, %+v", i+1, s.Waiting, s.Waiters)
		}
		w.must(rdb.ZRem(w.Context(), queue, "gone:1:10000::gone").Err())
	}
	line, err := w.direct[0].ZRange(w.Context(), queue, 0, -1).Result()
	w.must(err)
	for _, rdb := range w.direct { // as by a node that is away now, and whose clock is ahead
		w.must(rdb.ZAdd(w.Context(), queue, redis.Z{Score: float64(time.Now().Add(time.Minute).UnixMicro()), Member: line[len(line)-1]}).Err())
	}
	s := w.looks(l)
	if s.Waiters[0].Waited < 0 {
		t.Errorf("somebody has waited for %v", s.Waiters[0].Waited)
	}
	w.servers[2].Kill() // it may have whoever another node has
	w.must(w.direct[0].ZAdd(w.Context(), queue, redis.Z{Score: 1, Member: "one:1:10000::one"}).Err())
	w.until("all whom a majority may have are shown", func() bool {
		s, err := l.Inspect(w.Context(), "x")
		return err == nil && s.Waiting == 2 && len(s.Waiters) == 2 && s.Waiters[0].Note == "one"
	})
	w.unlock(lease)
	w.unlock(w.gets(waits))
}
