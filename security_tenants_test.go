package fairlock_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// rightsOf are what docs/operations.md has of rights: the rule, and what a cluster takes instead.
func rightsOf(t *testing.T) (rule, more, less string) {
	t.Helper()
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ = strings.Cut(string(page), "```acl\n")
	rule, _, _ = strings.Cut(rule, "```")
	_, cluster, _ := strings.Cut(string(page), "| a Redis Cluster | ")
	words := strings.Split(cluster, "`")
	return rule, strings.ReplaceAll(words[1], `\|`, "|"), strings.ReplaceAll(words[3], `\|`, "|")
}

// commands are those of the rule.
func commands(t *testing.T) string {
	t.Helper()
	rule, _, _ := rightsOf(t)
	var all []string
	for word := range strings.FieldsSeq(rule) {
		if strings.HasPrefix(word, "+") {
			all = append(all, word)
		}
	}
	return strings.Join(all, " ")
}

func TestTenantsWithAPrefixEachCannotReachOneAnother(t *testing.T) {
	f := newFaulty(t)
	tenant := func(prefix string) (u *faultUser, rdb *redis.Client) {
		as := f.as("~"+prefix+":*", "&"+prefix+":wake:*", commands(t)+" +psubscribe +lpush")
		rdb = redis.NewClient(as)
		f.Cleanup(func() { _ = rdb.Close() })
		return f.user(as, fairlock.WithPrefix(prefix)), rdb
	}
	a, hostile := tenant("a")
	b, _ := tenant("b")
	lease := b.locks("x")
	ours := a.locks("y")
	w := b.asks(faultCtx, "x")
	f.prefix = "b"
	f.until("it waits", func() bool { return f.line("x") == 1 })
	f.heard(1)
	channel := f.direct.PubSubChannels(faultCtx, "*").Val()[0]
	keys := f.keys("x")
	for what, err := range map[string]error{
		"its record":    hostile.Del(faultCtx, keys.Record()).Err(),
		"its line":      hostile.LRange(faultCtx, keys.Queue(), 0, -1).Err(),
		"its deadlines": hostile.ZCard(faultCtx, keys.Waiters()).Err(),
		"its token":     hostile.Get(faultCtx, keys.Token()).Err(),
		"its channel":   hostile.Publish(faultCtx, channel, "").Err(),
	} {
		f.forbids(what, err)
	}
	for _, listen := range []func(context.Context, ...string) *redis.PubSub{hostile.Subscribe, hostile.PSubscribe} {
		sub := listen(faultCtx, channel)
		_, err := sub.Receive(faultCtx)
		f.forbids("to hear it", err)
		f.must(sub.Close())
	}
	// What a's own releases tell goes to a's channels, whatever stands in a's line.
	f.must(hostile.LPush(faultCtx, "a:queue:{y}", "1:"+f.inLine("x")).Err())
	f.must(hostile.ZAdd(faultCtx, "a:waiters:{y}", redis.Z{Score: float64(f.serverMillis() + 15000), Member: f.inLine("x")}).Err())
	f.unlocks(ours)
	w.waits()
	f.keeps(lease)
	f.unlocks(lease)
	f.unlocks(w.gets())
	f.loses()
}

func TestAPrefixThatBeginsWithAnotherAndAColonIsWithinItsRights(t *testing.T) {
	f := newFaulty(t)
	lease := f.beside(fairlock.WithPrefix("a:b")).locks("x")
	f.ends(lease)
	rdb := f.may("~a:*", onlyKeys)
	f.must(rdb.Del(faultCtx, "a:b:lock:{x}").Err())
	f.loses()
}

func TestOnAClusterChannelPatternsSeparateTheLocksOfOnePrefix(t *testing.T) {
	s := redistest.StartCluster(t)
	admin := s.Client(t)
	onlyMine := []any{"ACL", "SETUSER", "app", "reset", "on", ">pass", "~fairlock:*:{mine}", "&fairlock:wake:{mine}:*"}
	_, more, less := rightsOf(t)
	for word := range strings.FieldsSeq(commands(t) + " " + more) {
		if !slices.Contains(strings.Fields(less), word) {
			onlyMine = append(onlyMine, word)
		}
	}
	if err := admin.Do(t.Context(), onlyMine...).Err(); err != nil {
		t.Fatal(err)
	}
	locker := func(user string) (*fairlock.Locker, *redis.ClusterClient) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}, Username: user, Password: "pass"})
		t.Cleanup(func() { _ = rdb.Close() })
		l := fairlock.New(rdb)
		t.Cleanup(func() { _ = l.Close() })
		return l, rdb
	}
	a, rdb := locker("app")
	b, _ := locker("app")
	lease, err := a.Lock(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	next := queues(b, "mine")
	waitUntil(t, "it listens", func() bool { return len(admin.PubSubShardChannels(t.Context(), "*").Val()) == 1 })
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-next; r.err != nil {
		t.Fatal(r.err)
	} else if err := r.lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.TryLock(t.Context(), "bank"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("another lock: %v", err)
	}
	if err := rdb.SPublish(t.Context(), "fairlock:wake:{bank}:x", "").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("another lock's channel: %v", err)
	}
	if _, err := rdb.SSubscribe(t.Context(), "fairlock:wake:{bank}:x").Receive(t.Context()); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("to hear of another lock: %v", err)
	}
	for _, entry := range admin.ACLLog(t.Context(), 10).Val() {
		if !strings.Contains(entry.Object, "bank") && entry.Object != "client|setinfo" {
			t.Errorf("refused: %+v", *entry)
		}
	}
	if errors.Join(a.Close(), b.Close()) != nil {
		t.Error("it does not close")
	}
}
