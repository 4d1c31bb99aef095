package security

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
	"github.com/fairlock/locks/test/world"
)

// rightsOf returns the rights in docs/operations.md: the rule, and the rights that a cluster adds
// and drops.
func rightsOf(t *testing.T) (rule, more, less string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ = strings.Cut(string(page), "```acl\n")
	rule, _, _ = strings.Cut(rule, "```")
	_, cluster, _ := strings.Cut(string(page), "| a Redis Cluster | ")
	words := strings.Split(cluster, "`")
	return rule, strings.ReplaceAll(words[1], `\|`, "|"), strings.ReplaceAll(words[3], `\|`, "|")
}

// commands returns the commands in the rule.
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
	tenant := func(prefix string) (u *world.User, rdb *redis.Client) {
		as := f.as("~"+prefix+":*", "&"+prefix+":wake:*", commands(t)+" +psubscribe +lpush")
		rdb = redis.NewClient(as)
		f.Cleanup(func() { _ = rdb.Close() })
		return f.User(as, fairlock.WithPrefix(prefix)), rdb
	}
	a, hostile := tenant("a")
	b, _ := tenant("b")
	lease := b.Locks("x")
	ours := a.Locks("y")
	w := b.Asks(background, "x")
	f.Prefix = "b"
	f.Until("it waits", func() bool { return f.Line("x") == 1 })
	f.Heard(1)
	channel := f.Direct.PubSubChannels(background, "*").Val()[0]
	keys := f.Keys("x")
	for what, err := range map[string]error{
		"its record":    hostile.Del(background, keys.Record()).Err(),
		"its line":      hostile.LRange(background, keys.Queue(), 0, -1).Err(),
		"its deadlines": hostile.ZCard(background, keys.Waiters()).Err(),
		"its token":     hostile.Get(background, keys.Token()).Err(),
		"its channel":   hostile.Publish(background, channel, "").Err(),
	} {
		f.forbids(what, err)
	}
	for _, listen := range []func(context.Context, ...string) *redis.PubSub{hostile.Subscribe, hostile.PSubscribe} {
		sub := listen(background, channel)
		_, err := sub.Receive(background)
		f.forbids("to hear it", err)
		f.Must(sub.Close())
	}
	// The messages of a's own releases go to a's channels, whatever is in a's line.
	f.Must(hostile.LPush(background, "a:queue:{y}", "1:"+f.inLine("x")).Err())
	f.Must(hostile.ZAdd(background, "a:waiters:{y}", redis.Z{Score: float64(f.serverMillis() + 15000), Member: f.inLine("x")}).Err())
	f.Unlocks(ours)
	w.Waits()
	f.Keeps(lease)
	f.Unlocks(lease)
	f.Unlocks(w.Gets())
	// Of b's lock nothing is deleted: a late request of b would come back for it.
	f.Must(f.Direct.Del(background, "a:lock:{y}", "a:queue:{y}", "a:waiters:{y}", "a:token:{y}").Err())
}

func TestAPrefixThatBeginsWithAnotherAndAColonIsWithinItsRights(t *testing.T) {
	f := newFaulty(t)
	lease := f.Beside(fairlock.WithPrefix("a:b")).Locks("x")
	f.Ends(lease)
	rdb := f.may("~a:*", onlyKeys)
	f.Must(rdb.Del(background, "a:b:lock:{x}").Err())
	f.Loses()
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
	next := world.Queue(b, "mine")
	world.Until(t, "it listens", func() bool { return len(admin.PubSubShardChannels(t.Context(), "*").Val()) == 1 })
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-next; r.Err != nil {
		t.Fatal(r.Err)
	} else if err := r.Lease.Unlock(t.Context()); err != nil {
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
		if !strings.Contains(entry.Object, "bank") && entry.Object != "client|setinfo" && entry.Object != "fairlock:protocol" {
			t.Errorf("refused: %+v", *entry)
		}
	}
	if errors.Join(a.Close(), b.Close()) != nil {
		t.Error("it does not close")
	}
}
