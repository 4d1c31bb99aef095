package quorum

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/test/redistest"
)

func TestInspectShowsWhatEachNodeSaysAndWhyANodeSaysNothing(t *testing.T) {
	w := realNodes(t, 3)
	l := w.locker()
	lease := w.has(l, "x", Note("me"))
	next := w.queues(l, "x", Note("next"))
	var s *State
	look := func() {
		w.Helper()
		s = w.looks(l)
	}
	w.until("all nodes know that the holder is decided", func() bool {
		look()
		return s.Nodes[0].Decided && s.Nodes[1].Decided && s.Nodes[2].Decided
	})
	for i, n := range s.Nodes {
		if n.Node != w.addrs[i] || n.Err != nil || n.Waiting != 1 || n.Token < lease.Token() || n.Vote == nil || n.Vote.Note != "me" || n.Vote.Owner != lease.Owner() || n.Vote.Remaining <= 0 || n.Quarantine != 0 {
			t.Errorf("node %d shows %+v, with the vote for %+v", i+1, n, n.Vote)
		}
	}

	// A vote that came after the decision has a token of its own until the holder tells its own.
	w.must(w.direct[1].HIncrBy(w.Context(), "quorum:lock:{x}", "token", 1).Err())
	w.must(w.direct[1].HDel(w.Context(), "quorum:lock:{x}", "decided").Err())
	if look(); s.Holder.Token != lease.Token() {
		t.Errorf("the holder's token is %d, and shown as %d", lease.Token(), s.Holder.Token)
	}

	w.servers[2].Kill()
	look()
	if n := s.Nodes[2]; n.Err == nil || n.Vote != nil || s.Holder == nil || s.Nodes[0].Err != nil {
		t.Errorf("a node that was killed shows %+v, and the lock is %+v", n, s)
	}
	w.unlock(lease)
	w.unlock(w.gets(next))

	w.must(w.direct[1].HSet(w.Context(), "quorum:node", "from", time.Now().Add(time.Minute).UnixMilli()).Err())
	w.servers[2].Restart()
	w.until("the node is back", func() bool { look(); return s.Nodes[2].Err == nil })
	for i, rests := range []bool{false, true, true} {
		if n := s.Nodes[i]; n.Quarantine > 0 != rests || n.Quarantine > DefaultLongestLease || n.Vote != nil || n.Decided {
			t.Errorf("node %d shows %+v", i+1, n)
		}
	}
	w.must(w.direct[0].HSet(w.Context(), "quorum:node", "set", "others").Err())
	look()
	w.is(s.Nodes[0].Err, errOther)
}

// strangers are nodes that know no quorum.
func strangers(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	for range 3 {
		s := redistest.Start(t)
		w.servers, w.addrs = append(w.servers, s), append(w.addrs, s.Addr())
		w.direct = append(w.direct, s.Client(t))
	}
	return w
}

func TestANodeSaysWhoItIsAlsoWhereNothingElseWorks(t *testing.T) {
	w := strangers(t)
	l := w.locker()
	ask := func() (all []NodeStatus) {
		w.Helper()
		all, err := l.Nodes(w.Context())
		w.must(err)
		return all
	}
	runs := make(map[string]bool)
	for i, s := range ask() {
		if runs[s.Run] = true; s.Node != w.addrs[i] || s.Err != nil || s.Set != "" || s.LongestLease != 0 || s.Quarantine != DefaultLongestLease {
			t.Errorf("a node that is new says %+v", s)
		}
		if s.Clock.Abs() > s.Within+time.Millisecond || s.Within <= 0 || s.Within > time.Second {
			t.Errorf("the clock of our own machine is %v ahead, within %v", s.Clock, s.Within)
		}
	}
	if len(runs) != 3 || runs[""] {
		t.Errorf("run ids: %v", runs)
	}
	for _, rdb := range w.direct {
		if keys := rdb.Keys(w.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("asking has written %q", keys)
		}
	}

	w.must(l.Init(w.Context()))
	numbers := map[int]bool{0: true} // of which a node has one
	for _, s := range ask() {
		if s.Err != nil || s.Set != l.set || numbers[s.Number] || s.LongestLease != DefaultLongestLease || s.Quarantine != 0 {
			t.Errorf("a node that was told that the quorum is new says %+v", s)
		}
		numbers[s.Number] = true
	}

	w.must(w.direct[0].HSet(w.Context(), "quorum:node", "most", 1000).Err())
	w.must(w.direct[1].Do(w.Context(), "acl", "setuser", "default", "-info").Err())
	w.servers[2].Kill()
	all := ask()
	w.is(all[0].Err, errOther)
	if s := all[0]; s.LongestLease != time.Second || s.Run == "" {
		t.Errorf("a node of another quorum says %+v", s)
	}
	for i, says := range map[int]string{1: "run this command", 2: "refused"} {
		if s := all[i]; s.Err == nil || !strings.Contains(s.Err.Error(), says) || s.Run != "" {
			t.Errorf("node %d says %+v", i+1, s)
		}
	}

	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	_, err := l.Nodes(ctx)
	w.is(err, context.Canceled)
	w.must(l.Close())
	_, err = l.Nodes(w.Context())
	w.is(err, ErrClosed)
	_, err = w.locker().Nodes(nil) //nolint:staticcheck // what a user may do
	w.is(err, ErrInvalid)
	w.is(w.locker().Init(nil), ErrInvalid) //nolint:staticcheck // the same
	_, err = New(nil).Nodes(w.Context())
	w.is(err, ErrInvalid)
}

func TestNothingIsWrittenByALockerThatAWrongOptionMakesUseless(t *testing.T) {
	w := strangers(t)
	for what, option := range map[string]Option{
		"prefix": WithPrefix("shop{1}"), "lease": WithLease(time.Millisecond), "logger": WithLogger(nil),
	} {
		l := w.locker(option)
		_, err := l.Nodes(w.Context())
		for call, err := range map[string]error{"Nodes": err, "Init": l.Init(w.Context())} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %s says %v", what, call, err)
			}
		}
	}
	for i, rdb := range w.direct {
		if keys := rdb.Keys(w.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("node %d has %q", i+1, keys)
		}
	}
}

func TestTwoAddressesOfOneServerHaveOneRunID(t *testing.T) {
	s := redistest.Start(t)
	other := redistest.Start(t)
	var nodes []redis.UniversalClient
	for _, addr := range []string{s.Addr(), strings.Replace(s.Addr(), "127.0.0.1", "localhost", 1), other.Addr()} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	l := New(nodes)
	t.Cleanup(func() { _ = l.Close() })
	all, err := l.Nodes(t.Context())
	if err != nil || all[0].Run != all[1].Run || all[0].Run == all[2].Run {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestListShowsWhatIsHeldOrWaitedForAndNothingElse(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		lease := w.has(l, "forced")
		w.must(l.ForceUnlock(w.Context(), "forced"))
		<-lease.Done()
		if names := w.lists(w.Context(), l); names != "" {
			t.Errorf("nothing is held, and listed is %q", names)
		}
		for _, rdb := range w.direct[1:] { // a majority
			w.must(rdb.HSet(w.Context(), "quorum:node", "from", time.Now().Add(time.Hour).UnixMilli()).Err())
		}
		ctx, cancel := context.WithCancel(w.Context())
		done := w.asks(ctx, l, "waited for")
		w.until("it is in all lines", func() bool {
			for _, rdb := range w.direct {
				if rdb.Exists(ctx, "quorum:queue:{waited for}").Val() == 0 {
					return false
				}
			}
			return true
		})
		w.must(w.direct[0].Del(ctx, "quorum:lock:{waited for}").Err())
		if names := w.lists(w.Context(), l); names != "waited for " {
			t.Errorf("one lock is waited for, and listed is %q", names)
		}
		cancel()
		w.is(w.ends(done).err, context.Canceled)
	})
}

func TestANodeThatHasForgottenIsTakenOverByNoOtherQuorum(t *testing.T) {
	onBoth(t, func(w *world) {
		l := w.locker()
		record := func() map[string]string { return w.direct[0].HGetAll(w.Context(), l.nodeKey).Val() }
		w.must(w.direct[0].HSet(w.Context(), l.nodeKey, "run", "another").Err())
		before := record()
		for _, stranger := range []*Locker{w.locker(WithSet("another")), w.locker(WithLongestLease(time.Second))} {
			ticket := stranger.core.Ticket(&engine.Request{Lease: time.Second})
			keys := stranger.keysOf(w.keys(stranger, "x"), ticket)
			w.is(w.refusal(stranger.nodes[0], enterScript, keys, ticket.String(), stranger.nodes[0].arg, stranger.args.most), errOther)
			if after := record(); !maps.Equal(before, after) {
				w.Fatalf("it was %v and is %v", before, after)
			}
		}
		w.enters(w.direct[0], l, 0, w.keys(l, "y"), l.core.Ticket(&engine.Request{Lease: time.Second}))
		if after := record(); after["run"] == "another" || after["set"] != before["set"] {
			w.Errorf("its own quorum made %v of %v", after, before)
		}
	})
}

func TestNodesThatMayNotSayWhoListensHandTheLockOver(t *testing.T) {
	w := realNodes(t, 3)
	deaf := func() *Locker {
		var nodes []redis.UniversalClient
		for i, s := range w.servers {
			w.must(w.direct[i].Do(w.Context(), "ACL", "SETUSER", "deaf", "on", "nopass", "+@all", "-pubsub|numsub", "~*", "&*").Err())
			nodes = append(nodes, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "any" }))
		}
		l := New(nodes)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	lease := w.has(deaf(), "x")
	next := w.queues(deaf(), "x")
	w.unlock(lease)
	w.unlock(w.gets(next))
}
