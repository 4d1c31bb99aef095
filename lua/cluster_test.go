package lua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// The tests for undeclared keys rest on this refusal: see declared.
func TestAScriptThatTouchesAnUndeclaredKeyIsRefused(t *testing.T) {
	for name, at := range map[string]func(*testing.T) *site{"real": onRedis, "cluster": onCluster} {
		t.Run(name, func(t *testing.T) {
			s := at(t)
			for _, source := range []string{`return redis.call('GET', KEYS[1] .. 'x')`, `redis.call('GET', KEYS[1]) return redis.call('DEL', '` + s.keys.Queue() + `')`} {
				err := s.scripts.Eval(ctx, source, []string{s.keys.Record()}).Err()
				if !undeclared(err) {
					t.Fatalf("%s: %v", source, err)
				}
			}
			must(t, s.scripts.Eval(ctx, `return redis.call('EXISTS', KEYS[1], KEYS[2])`, []string{s.keys.Record(), s.keys.Queue()}).Err())
		})
	}
}

// undeclared reports whether err is the server's error for a script that touches a key that its ACL
// forbids. Redis 7.0 words that error in one way, later versions in another.
func undeclared(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "can't access at least one of the keys") ||
		strings.Contains(err.Error(), "No permissions to access a key"))
}

// mixed returns keys that no lock has.
func mixed(all []string) (k Keys) {
	for i, key := range all {
		k.text += key
		if i < len(k.ends) {
			k.ends[i] = uint16(len(k.text)) //nolint:gosec // a few dozen bytes
		}
	}
	return k
}

func TestKeysOfSeveralSlotsAreRefused(t *testing.T) {
	s := onCluster(t)
	a := s.party("a")
	own, other := keysOf(t, "x"), keysOf(t, "y")
	ticket := a.ticket(usual)
	for i := range 4 {
		all := own.all()
		all[i] = other.all()[i]
		keys := mixed(all)
		_, entered := a.Enter(ctx, keys, Enter{Tickets: []EnterTicket{{Ticket: parsed(ticket)}}})
		_, left := a.Leave(ctx, keys, []LeaveTicket{{Ticket: parsed(ticket)}})
		_, _, forced := a.Force(ctx, keys, 1)
		_, inspected := a.Inspect(ctx, keys, 0, 1)
		for verb, err := range map[string]error{"enter": entered, "leave": left, "force": forced, "inspect": inspected} {
			if !redis.HasErrorPrefix(err, "CROSSSLOT") {
				t.Errorf("%s: %v", verb, err)
			}
		}
	}
	equal(t, "all keys", s.dump(), "")
}

// The renewals are sent by two clients: one takes the cluster for a single address, the other knows
// the cluster.
func TestRenewalsOfSeveralSlotsAreSentAtOnceAndAnsweredOneByOne(t *testing.T) {
	for name, rdb := range map[string]func(s *site) redis.UniversalClient{
		"one address": func(s *site) redis.UniversalClient { return cluster(s.t).Client(s.t) },
		"cluster":     func(s *site) redis.UniversalClient { return s.rdb },
	} {
		t.Run(name, func(t *testing.T) {
			s := onCluster(t)
			s.scripts = rdb(s)
			a := s.party("a")
			var holds []Renewal
			for i := range 6 {
				s.keys = keysOf(t, fmt.Sprint("lock ", i%5)) // two share a slot
				ticket := a.owned("saga-7", usual)
				token := a.takes(ticket)
				r := a.renewal(ticket, token)
				r.Lease = time.Hour
				holds = append(holds, r)
			}
			holds[2].Ticket = parsed(a.ticket(usual)) // a ticket that holds nothing
			for i, r := range a.Renew(ctx, holds) {
				must(t, r.Err)
				equal(t, "remaining", r.Remaining == time.Hour, i != 2)
				s.keys = holds[i].Keys
				equal(t, "renewed", s.field("lease") == "3600000", i != 2)
			}
			s.spoil(holds[4].Keys.Record(), "string")
			for i, r := range a.Renew(ctx, holds) {
				equal(t, "remaining beside a key of another type", r.Remaining == time.Hour, i != 2 && i != 4)
				equal(t, "of the key of another type", WrongType(r.Err), i == 4)
			}
			equal(t, "alone", WrongType(a.Renew(ctx, holds[4:5])[0].Err), true)
		})
	}
}

// The scripts run on sharded channels: one channel per lock and client, in the slot of the lock.
func TestShardedChannelsAreAskedAndTold(t *testing.T) {
	s := onCluster(t)
	channels := "fairlock:wake:{x}:"
	run := func(sc script, before []any, client string, after ...any) []any {
		t.Helper()
		p := NewServer(s.scripts, channels, client)
		args := append(append(before, "SPUBLISH", channels, client), after...)
		reply, err := p.run(ctx, sc, append(sc.on(s.keys.all(), len(args)), args...))
		must(t, err)
		s.check()
		return reply
	}
	enter := func(client, ticket string) Entered {
		t.Helper()
		answer, err := decodeEntered(run(enterScript, []any{"wait", 0, 30000}, client, 30000, ticket[:len(client)+2], ticket, 0, 0, "0"), []EnterTicket{{Ticket: parsed(ticket)}})
		must(t, err)
		return answer
	}
	listen := func(client string) *redis.PubSub {
		t.Helper()
		sub := s.rdb.SSubscribe(ctx, channels+client)
		t.Cleanup(func() { _ = sub.Close() }) // it may be closed already
		_, err := sub.Receive(ctx)
		must(t, err)
		return sub
	}
	plain := s.rdb.Subscribe(ctx, channels+"d")
	t.Cleanup(func() { _ = plain.Close() }) // nothing depends on how a connection ends
	_, err := plain.Receive(ctx)
	must(t, err)

	dead, b, a := listen("dead"), listen("b"), listen("a")
	token := enter("a", "a:1:30000::").Tickets[0].Grant.Token
	equal(t, "heard", enter("dead", "dead:1:30000::").Heard, true)
	equal(t, "heard", enter("b", "b:1:30000::").Heard, true)
	equal(t, "a plain subscription", enter("d", "d:1:30000::").Heard, false)
	must(t, dead.Close())
	eventually(t, "the subscription is over", func() bool {
		return s.rdb.PubSubShardNumSub(ctx, channels+"dead").Val()[channels+"dead"] == 0
	})
	run(leaveScript, nil, "a", "", "a:1:30000::", 0, token, "0")
	hears := func(sub *redis.PubSub) Message {
		t.Helper()
		text, err := sub.ReceiveMessage(ctx)
		must(t, err)
		m, err := ParseMessage(text.Payload)
		must(t, err)
		return m
	}
	grant := hears(b)
	equal(t, "granted", grant.Ticket.String(), "b:1:30000::")
	run(forceScript, nil, "a", "", grant.Token)
	equal(t, "forced", hears(b).News, Forces)
	equal(t, "the blind one holds", s.field("owner"), "d:1")
	_ = a
}

// A script that ran halfway would delete the record, and then its next call that needs the record
// would be refused.
func TestAScriptThatWritesIsRefusedWholeWhileItsSlotMovesAndARenewalIsNot(t *testing.T) {
	s := onCluster(t)
	other := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
	a, b := s.party("a"), s.party("b")
	ticket, token := a.holds(usual)
	b.waits(usual) // so that all four keys are there

	admin, target := cluster(t).Client(t), other.Client(t)
	must(t, admin.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(other.Port())).Err())
	id := target.Do(ctx, "cluster", "myid").Val()
	slot := admin.ClusterKeySlot(ctx, s.keys.Record()).Val()
	eventually(t, "the nodes know each other", func() bool {
		return admin.Do(ctx, "cluster", "setslot", slot, "migrating", id).Err() == nil
	})
	t.Cleanup(func() {
		must(t, admin.Do(ctx, "cluster", "setslot", slot, "stable").Err())
		must(t, admin.Do(ctx, "cluster", "forget", id).Err())
	})
	_, err := a.Leave(ctx, s.keys, []LeaveTicket{{Ticket: parsed(ticket), Token: token}})
	if !Moving(err) || !Passing(err) {
		t.Fatalf("leave: %v", err)
	}
	_, err = b.Enter(ctx, s.keys, Enter{Tickets: []EnterTicket{{Ticket: parsed(b.ticket(usual))}}})
	if !Moving(err) {
		t.Fatalf("enter: %v", err)
	}
	equal(t, "renewed", a.renews(a.renewal(ticket, token)) > 0, true)
}

// three is a cluster where some nodes hang.
type three struct {
	redis.UniversalClient
	nodes [3]*redis.Client
}

func (c three) MasterForKey(context.Context, string) (*redis.Client, error) { return c.nodes[0], nil }
func (c three) ReloadState(context.Context)                                 {}
func (c three) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	return errors.Join(f(ctx, c.nodes[0]), f(ctx, c.nodes[1]), f(ctx, c.nodes[2]))
}

func TestMastersThatHangAreWaitedForTogether(t *testing.T) {
	const timeout = 3 * time.Second
	var c three
	for i := range c.nodes {
		server := redistest.Start(t)
		c.nodes[i] = server.Client(t, func(o *redis.Options) { o.ReadTimeout = timeout })
		must(t, c.nodes[i].Ping(ctx).Err())
		if i > 0 {
			server.Pause()
			t.Cleanup(server.Resume)
		}
	}
	began := time.Now()
	replies, err := NewServer(c, "x", "y").Masters(ctx, "ping")
	if took := time.Since(began); err != nil || len(replies) != 1 || took >= 2*timeout {
		t.Errorf("%v, %v after %v", replies, err, took)
	}
}

// labelled is a client of a user's, a value that cannot be compared.
type labelled struct {
	redis.UniversalClient
	tags []string
}

type labelledCluster struct {
	three
	tags []string
}

func (labelledCluster) MasterForKey(context.Context, string) (*redis.Client, error) {
	return nil, errors.New("no node is known")
}

func TestAClientNeedNotBeComparable(t *testing.T) {
	s := NewServer(labelled{onRedis(t).rdb, nil}, "x", "y")
	equal(t, "callers", len(s.Join(ctx, []Keys{keysOf(t, "x"), keysOf(t, "y")})), 2)
	c := NewServer(labelledCluster{tags: []string{"a"}}, "x", "y")
	equal(t, "sharded", c.Sharded(), true)
	equal(t, "node", c.Node(keysOf(t, "x")), nil)
	equal(t, "callers on a cluster", len(c.Join(ctx, []Keys{keysOf(t, "x"), keysOf(t, "y")})), 0)
}
