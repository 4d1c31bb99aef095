package fairlock_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
)

// rights are the rows of docs/security.md, by what stands in their first column.
var rights = map[string]func(f *faulty){
	"the keys of one lock: `~fairlock:*:{mine}`": oneLocksKeys,
	"all keys of a prefix: `~fairlock:*`":        aPrefixsKeys,
	"keys to read: `%R~fairlock:*`":              keysToRead,
	"`EVAL`, `EVALSHA`":                          evaluates,
	"`PUBLISH` on `fairlock:wake:*`":             publishes,
	"`PUBLISH` on the channels of plain locks":   publishesPlainly,
	"`SUBSCRIBE` to `fairlock:wake:*`":           subscribes,
	"`PSUBSCRIBE` to it, as `Overhear` does":     overhearsAll,
	"`PUBSUB CHANNELS`":                          asksForChannels,
	"`SCAN`, `KEYS`":                             scans,
	"`MONITOR`, `SLOWLOG`":                       monitors,
	"`INFO`":                                     asksForInformation,
	"`SCRIPT FLUSH`":                             flushesScripts,
	"`CLIENT KILL`, `CLIENT PAUSE`":              killsClients,
	"`FLUSHALL`, `FLUSHDB`":                      flushes,
	"`CONFIG SET`":                               configures,
	"an application's, in full":                  administers,
}

func TestWhoHasARightCanDoToOthersWhatTheThreatPageSaysAndNoMore(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| right | its holder can | and cannot |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for row := range strings.Lines(table) {
		rows = append(rows, strings.TrimSpace(strings.Split(row, "|")[1]))
	}
	tests := make(map[string]func(*testing.T))
	for row, test := range rights {
		if !slices.Contains(rows, row) {
			t.Errorf("docs/security.md has no row %s", row)
		}
		tests[regexp.MustCompile("[^A-Za-z ]").ReplaceAllString(row, "")] = func(t *testing.T) { test(newFaulty(t)) }
	}
	for _, row := range rows {
		if rights[row] == nil {
			t.Errorf("nobody tries what docs/security.md says of %s", row)
		}
	}
	together(t, tests)
}

// takesBeside takes a lock that somebody trusts.
func (f *faulty) takesBeside(lease *fairlock.Lease) *fairlock.Lease {
	f.Helper()
	second, err := f.beside().TryLock(faultCtx, lease.Name())
	f.must(err)
	if err := errors.Join(lease.Err(), second.Err()); err != nil || second.Token() <= lease.Token() {
		f.Errorf("%v; token %d comes after %d", err, second.Token(), lease.Token())
	}
	return second
}

// isHeldBy fails unless a newcomer is told that this owner has the lock.
func (f *faulty) isHeldBy(name, owner string) {
	f.Helper()
	_, err := f.beside().TryLock(faultCtx, name)
	if held := new(fairlock.HeldError); !errors.As(err, &held) || held.Owner != owner {
		f.Errorf("%s: %v", name, err)
	}
}

func oneLocksKeys(f *faulty) {
	keys := f.keys("mine")
	rdb := f.may("~fairlock:*:{mine}", onlyKeys)
	lease := f.beside().locks("mine", fairlock.Note("n"))
	bank := f.beside().locks("bank")
	if f.holding("mine") == "" || !strings.HasSuffix(rdb.HKeys(faultCtx, keys.Record()).Val()[4], ":n") {
		f.Errorf("it does not read %v", rdb.HGetAll(faultCtx, keys.Record()))
	}
	f.ends(lease)
	f.must(rdb.Del(faultCtx, keys.Record()).Err()) // frees
	f.must(f.takesBeside(lease).Unlock(faultCtx))
	f.must(rdb.HSet(faultCtx, keys.Record(), "owner", "me", "token", 7, "me:1:30000::", "9999999999999:1").Err()) // takes and blocks
	f.isHeldBy("mine", "me")
	f.must(rdb.Set(faultCtx, keys.Record(), "x", 0).Err()) // damages
	f.refuses(f.beside().Interface, "mine", refusal{says: "WRONGTYPE"})
	f.must(rdb.Del(faultCtx, keys.Record()).Err())
	raised := lease.Token() + 1e12
	f.must(rdb.Set(faultCtx, keys.Token(), raised, 0).Err())
	next := f.beside().locks("mine")
	if next.Token() <= raised {
		f.Errorf("token %d", next.Token())
	}
	f.unlocks(next)

	f.forbids("read another", rdb.HGetAll(faultCtx, f.keys("bank").Record()).Err())
	f.forbids("free another", rdb.Del(faultCtx, f.keys("bank").Record()).Err())
	f.forbids("tell", rdb.Publish(faultCtx, "fairlock:wake:x", "").Err())
	f.unlocks(bank)
	f.loses()
}

func aPrefixsKeys(f *faulty) {
	rdb := f.may("~fairlock:*", onlyKeys)
	lease := f.beside().locks("x")
	others := f.beside(fairlock.WithPrefix("other"), fairlock.WithLease(calmLease)).locks("y")
	f.ends(lease)
	f.must(rdb.Del(faultCtx, f.keys("x").Record()).Err())
	f.must(f.takesBeside(lease).Unlock(faultCtx))
	for _, key := range []string{"other:lock:{y}", "other:queue:{y}", "other:waiters:{y}", "other:token:{y}"} {
		f.forbids(key, rdb.Del(faultCtx, key).Err())
		f.forbids(key, rdb.Set(faultCtx, key, "", 0).Err())
	}
	f.renewedAfter(others)
	f.unlocks(others)
	f.loses()
}

func keysToRead(f *faulty) {
	as := f.as("%R~fairlock:*", "allchannels", "+@all", "-@admin")
	rdb := redis.NewClient(as)
	defer rdb.Close()
	lease := f.beside().locks("x", fairlock.WithOwner("me"), fairlock.Note("n"))
	key := f.keys("x").Record()
	if got := rdb.HGet(faultCtx, key, "owner").Val(); got != "me" {
		f.Errorf("the owner is %q", got)
	}
	f.forbids("write", rdb.HSet(faultCtx, key, "owner", "you").Err())
	f.forbids("free", rdb.Del(faultCtx, key).Err())
	f.inspectRefused(f.user(as).Interface, "x", refusal{says: "NOPERM"}) // a script may write, for all that Redis knows
	f.unlocks(lease)
}

func evaluates(f *faulty) {
	rdb := f.may("~fairlock:*:{mine}", "+eval +evalsha +get")
	mine, bank := f.keys("mine").Token(), f.keys("bank").Token()
	for what, err := range map[string]error{
		"a key that is named": rdb.Eval(faultCtx, "return redis.call('GET', KEYS[1])", []string{bank}).Err(),
		"one that is not":     rdb.Eval(faultCtx, "return redis.call('GET', ARGV[1])", []string{mine}, bank).Err(),
		"a command":           rdb.Eval(faultCtx, "return redis.call('SET', KEYS[1], 1)", []string{mine}).Err(),
		"a channel":           rdb.Eval(faultCtx, "return redis.call('PUBLISH', 'fairlock:wake:x', 1)", nil).Err(),
	} {
		if err == nil || errors.Is(err, redis.Nil) || !strings.Contains(err.Error(), "can't") && !strings.Contains(err.Error(), "NOPERM") {
			f.Errorf("%s: %v", what, err)
		}
	}
	lease := f.beside(fairlock.WithLease(briefLease)).locks("x")
	f.ends(lease)
	f.must(f.direct.ConfigSet(faultCtx, "busy-reply-threshold", "100").Err())
	ended := make(chan error, 1)
	go func() { ended <- rdb.Eval(faultCtx, "while true do end", nil).Err() }()
	f.within(2*briefLease, "its end", func() { <-lease.Done() })
	f.until("the script is killed", func() bool { return f.direct.ScriptKill(faultCtx).Err() == nil })
	if err := <-ended; err == nil {
		f.Error("the script has ended by itself")
	}
	f.unlocks(f.beside().locks("x"))
}

func publishes(f *faulty) {
	v := f.targeted()
	f.until("it has asked since it listens", func() bool { return f.proxy.Count(f.verb("enter", "{bank}")) > 1 })
	v.undisturbed("nothing")
	liar := f.may("+publish", "&fairlock:wake:*")
	tell := func(verb string) (token int64) {
		f.Helper()
		ticket, record, token := v.right(verb)
		f.must(liar.Publish(faultCtx, "fairlock:wake:"+v.client(), f.message(verb, ticket, record, token)).Err())
		return token
	}
	v.ends(v.held)
	tell("forced")
	<-v.held.Done() // it believes that it has lost one
	v.ends(v.bank)
	token := tell("grant")
	second := v.wait.gets() // and that it has another
	if err := errors.Join(v.bank.Err(), second.Err()); err != nil || second.Token() != token {
		f.Errorf("%v; token %d, and not %d", err, second.Token(), token)
	}
	f.until("the record is the deceived one's", func() bool { return f.holder("bank") == token })
	if err := v.bank.Extend(faultCtx, time.Minute); !errors.Is(err, fairlock.ErrLost) {
		f.Errorf("the holder is told %v", err)
	}
	busy := v.other.locks("busy")
	v.wait = v.user.queues("busy", 1)
	v.waits = f.inLine("busy")
	f.must(liar.Publish(faultCtx, "fairlock:wake:"+v.client(), f.message("evicted", v.waits, f.keys("busy").Record(), 0)).Err())
	if err := v.wait.fails(); !errors.Is(err, fairlock.ErrEvicted) {
		f.Errorf("its call says %v", err)
	}
	f.unlocks(busy)
	f.unlocks(second)
	f.forbids("touch a key", liar.Do(faultCtx, "GET", f.keys("bank").Token()).Err())
	f.forbids("tell another prefix", liar.Publish(faultCtx, "other:wake:x", "").Err())
	f.loses()
}

func publishesPlainly(f *faulty) {
	f.plain()
	a, b := f.beside(), f.beside()
	first := b.locks("x") // a listens once it has waited
	was := a.waitsPlainly("x")
	f.listens("x", 1)
	f.unlocks(first)
	lease := was.gets()
	w := b.waitsPlainly("x")
	f.listens("x", 2)
	ticket, record := f.holding("x"), f.keys("x").Record()
	client, _, _ := strings.Cut(ticket, ":")
	liar := f.may("+publish", "&"+f.prefix+":wake:*", "&"+f.prefix+":freed:*")
	for range 100 {
		f.must(liar.Publish(faultCtx, f.prefix+":freed:{x}", "x").Err())
	}
	f.must(liar.Publish(faultCtx, f.prefix+":wake:"+client, f.message("grant", ticket, record, f.newToken())).Err())
	f.keeps(lease)
	w.waits()
	f.ends(lease)
	f.must(liar.Publish(faultCtx, f.prefix+":wake:"+client, f.message("forced", ticket, record, lease.Token())).Err())
	<-lease.Done()
	f.unlocks(w.gets()) // who believes that it was forced gives it back
}

// stranded is the ticket of a client that is gone, first in line for a lock with one behind it.
func (f *faulty) stranded(name string) (ticket string, next *faultWait) {
	f.Helper()
	ticket = "gone:1:30000::"
	f.must(f.direct.RPush(faultCtx, f.keys(name).Queue(), "1:"+ticket).Err())
	f.must(f.direct.ZAdd(faultCtx, f.keys(name).Waiters(), redis.Z{Score: float64(f.serverMillis() + 15000), Member: ticket}).Err())
	return ticket, f.beside().queues(name, 2, fairlock.Note("n"))
}

// hears fails unless the next thing that somebody hears is that this ticket has the lock.
func (f *faulty) hears(sub *redis.PubSub, ticket, lock string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(faultCtx, faultPatience)
	defer cancel()
	m := new(redis.Message)
	for m.Payload == "" { // which is what a Locker tells nobody, once
		var err error
		m, err = sub.ReceiveMessage(ctx)
		f.must(err)
	}
	if !strings.HasPrefix(m.Payload, "grant ") || !strings.HasSuffix(m.Payload, " "+ticket+" "+f.keys(lock).Record()) {
		f.Errorf("it hears %s", m.Payload)
	}
}

func subscribes(f *faulty) {
	sub := f.may("+subscribe +ping", "&fairlock:wake:*").Subscribe(faultCtx, "fairlock:wake:gone")
	defer sub.Close()
	f.heard(1)
	lease := f.beside().locks("x")
	ticket, next := f.stranded("x")
	f.heard(2)
	f.unlocks(lease)
	if got := f.holding("x"); got != ticket {
		f.Errorf("%s has it", got)
	}
	if next.gets(); next.took < claim*9/10 {
		f.Errorf("the next one came after %v", next.took)
	}
	f.hears(sub, ticket, "x")

	ears := f.direct.PubSubChannels(faultCtx, "*").Val()
	last := f.beside().queues("x", 1, fairlock.Note("told"))
	f.heard(3)
	waits := f.inLine("x")
	for _, channel := range f.direct.PubSubChannels(faultCtx, "*").Val() {
		if !slices.Contains(ears, channel) {
			f.must(sub.Subscribe(faultCtx, channel))
			f.until("two listen", func() bool { return f.direct.PubSubNumSub(faultCtx, channel).Val()[channel] == 2 })
		}
	}
	f.unlocks(next.lease)
	f.within(claim/2, "the hand-over", func() { f.unlocks(last.gets()) })
	f.hears(sub, waits, "x")
}

func overhearsAll(f *faulty) {
	sub := f.may("+psubscribe +ping", "&fairlock:wake:*").PSubscribe(faultCtx, "fairlock:wake:*")
	defer sub.Close()
	_, err := sub.Receive(faultCtx)
	f.must(err)
	lease := f.beside().locks("x")
	_, next := f.stranded("x")
	f.heard(1)
	waits := f.inLine("x")
	f.unlocks(lease)
	f.within(claim/2, "the next one's turn", func() { f.unlocks(next.gets()) })
	f.hears(sub, waits, "x")
}

func administers(f *faulty) {
	as := f.as("~fairlock:*", "&fairlock:wake:*", "+@read +@write +@pubsub +@scripting +@connection -@dangerous +info +time")
	v := f.targeted()
	full := f.user(as).Interface.(*fairlock.Locker)
	v.ends(v.held)
	f.must(full.ForceUnlock(faultCtx, "held"))
	<-v.held.Done()
	client, _, _ := strings.Cut(strings.TrimPrefix(v.waits, v.client()+":"), ":")
	f.must(full.Evict(faultCtx, "bank", v.client()+":"+client))
	if err := v.wait.fails(); !errors.Is(err, fairlock.ErrEvicted) {
		f.Error(err)
	}
	f.unlocks(v.bank)
}
