package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

// rights has a test for each row of docs/security.md, by the row's first column.
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
	page, err := os.ReadFile("../../docs/security.md")
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
	world.Together(t, tests)
}

// takesBeside takes a lock that a holder still trusts.
func (f *faulty) takesBeside(lease *fairlock.Lease) *fairlock.Lease {
	f.Helper()
	second, err := f.Beside().TryLock(background, lease.Name())
	f.Must(err)
	if err := errors.Join(lease.Err(), second.Err()); err != nil || second.Token() <= lease.Token() {
		f.Errorf("%v; token %d comes after %d", err, second.Token(), lease.Token())
	}
	return second
}

// isHeldBy fails unless a newcomer is told that this owner has the lock.
func (f *faulty) isHeldBy(name, owner string) {
	f.Helper()
	_, err := f.Beside().TryLock(background, name)
	if held := new(fairlock.HeldError); !errors.As(err, &held) || held.Owner != owner {
		f.Errorf("%s: %v", name, err)
	}
}

func oneLocksKeys(f *faulty) {
	keys := f.Keys("mine")
	rdb := f.may("~fairlock:*:{mine}", onlyKeys)
	lease := f.Beside().Locks("mine", fairlock.Note("n"))
	bank := f.Beside().Locks("bank")
	if f.holding("mine") == "" || !strings.HasSuffix(rdb.HKeys(background, keys.Record()).Val()[4], ":n") {
		f.Errorf("it does not read %v", rdb.HGetAll(background, keys.Record()))
	}
	f.Ends(lease)
	f.Must(rdb.Del(background, keys.Record()).Err()) // frees
	f.Must(f.takesBeside(lease).Unlock(background))
	// takes and blocks
	later := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), ":1")
	f.Must(rdb.HSet(background, keys.Record(), "owner", "me", "token", 7, "me:1:30000::", later).Err())
	f.isHeldBy("mine", "me")
	f.Must(rdb.Set(background, keys.Record(), "x", 0).Err()) // damages
	f.Refuses(f.Beside().Interface, "mine", world.Refusal{Says: "WRONGTYPE"})
	f.Must(rdb.Del(background, keys.Record()).Err())
	raised := lease.Token() + 1e12
	f.Must(rdb.Set(background, keys.Token(), raised, 0).Err())
	next := f.Beside().Locks("mine")
	if next.Token() <= raised {
		f.Errorf("token %d", next.Token())
	}
	f.Unlocks(next)

	f.forbids("read another", rdb.HGetAll(background, f.Keys("bank").Record()).Err())
	f.forbids("free another", rdb.Del(background, f.Keys("bank").Record()).Err())
	f.forbids("tell", rdb.Publish(background, "fairlock:wake:x", "").Err())
	f.Unlocks(bank)
	f.Loses()
}

func aPrefixsKeys(f *faulty) {
	rdb := f.may("~fairlock:*", onlyKeys)
	lease := f.Beside().Locks("x")
	others := f.Beside(fairlock.WithPrefix("other"), fairlock.WithLease(world.CalmLease)).Locks("y")
	f.Ends(lease)
	f.Must(rdb.Del(background, f.Keys("x").Record()).Err())
	f.Must(f.takesBeside(lease).Unlock(background))
	for _, key := range []string{"other:lock:{y}", "other:queue:{y}", "other:waiters:{y}", "other:token:{y}"} {
		f.forbids(key, rdb.Del(background, key).Err())
		f.forbids(key, rdb.Set(background, key, "", 0).Err())
	}
	f.RenewedAfter(others)
	f.Unlocks(others)
	f.Loses()
}

func keysToRead(f *faulty) {
	as := f.as("%R~fairlock:*", "allchannels", "+@all", "-@admin")
	rdb := redis.NewClient(as)
	defer rdb.Close()
	lease := f.Beside().Locks("x", fairlock.WithOwner("me"), fairlock.Note("n"))
	key := f.Keys("x").Record()
	if got := rdb.HGet(background, key, "owner").Val(); got != "me" {
		f.Errorf("the owner is %q", got)
	}
	f.forbids("write", rdb.HSet(background, key, "owner", "you").Err())
	f.forbids("free", rdb.Del(background, key).Err())
	// For Redis, any script may write.
	f.InspectRefused(f.User(as).Interface, "x", world.Refusal{Says: "NOPERM"})
	f.Unlocks(lease)
}

func evaluates(f *faulty) {
	rdb := f.may("~fairlock:*:{mine}", "+eval +evalsha +get")
	mine, bank := f.Keys("mine").Token(), f.Keys("bank").Token()
	for what, err := range map[string]error{
		"a key that is named": rdb.Eval(background, "return redis.call('GET', KEYS[1])", []string{bank}).Err(),
		"one that is not":     rdb.Eval(background, "return redis.call('GET', ARGV[1])", []string{mine}, bank).Err(),
		"a command":           rdb.Eval(background, "return redis.call('SET', KEYS[1], 1)", []string{mine}).Err(),
		"a channel":           rdb.Eval(background, "return redis.call('PUBLISH', 'fairlock:wake:x', 1)", nil).Err(),
	} {
		if err == nil || errors.Is(err, redis.Nil) || !strings.Contains(err.Error(), "can't") && !strings.Contains(err.Error(), "NOPERM") {
			f.Errorf("%s: %v", what, err)
		}
	}
	lease := f.Beside(fairlock.WithLease(world.BriefLease)).Locks("x")
	f.Ends(lease)
	f.Must(f.Direct.ConfigSet(background, "busy-reply-threshold", "100").Err())
	ended := make(chan error, 1)
	go func() { ended <- rdb.Eval(background, "while true do end", nil).Err() }()
	f.Within(world.BriefLease+world.Soon, "its end", func() { <-lease.Done() })
	f.Until("the script is killed", func() bool { return f.Direct.ScriptKill(background).Err() == nil })
	if err := <-ended; err == nil {
		f.Error("the script has ended by itself")
	}
	f.Unlocks(f.Beside().Locks("x"))
}

func publishes(f *faulty) {
	v := f.targeted()
	f.Until("it has asked since it listens", func() bool { return f.Proxy.Count(f.Verb("enter", "{bank}")) > 1 })
	v.undisturbed("nothing")
	liar := f.may("+publish", "&fairlock:wake:*")
	tell := func(verb string) (token int64) {
		f.Helper()
		ticket, record, token := v.right(verb)
		f.Must(liar.Publish(background, "fairlock:wake:"+v.client(), f.message(verb, ticket, record, token)).Err())
		return token
	}
	v.Ends(v.held)
	tell("forced")
	<-v.held.Done() // the target believes that it has lost a lock
	v.Ends(v.bank)
	token := tell("grant")
	second := v.wait.Gets() // and that it has another one
	if err := errors.Join(v.bank.Err(), second.Err()); err != nil || second.Token() != token {
		f.Errorf("%v; token %d, and not %d", err, second.Token(), token)
	}
	f.Until("the record is the deceived one's", func() bool { return f.Holder("bank") == token })
	if err := v.bank.Extend(background, time.Minute); !errors.Is(err, fairlock.ErrLost) {
		f.Errorf("the holder is told %v", err)
	}
	busy := v.other.Locks("busy")
	v.wait = v.user.Queues("busy", 1)
	v.waits = f.inLine("busy")
	f.Must(liar.Publish(background, "fairlock:wake:"+v.client(), f.message("evicted", v.waits, f.Keys("busy").Record(), 0)).Err())
	if err := v.wait.Fails(); !errors.Is(err, fairlock.ErrEvicted) {
		f.Errorf("its call says %v", err)
	}
	f.Unlocks(busy)
	f.Unlocks(second)
	f.forbids("touch a key", liar.Do(background, "GET", f.Keys("bank").Token()).Err())
	f.forbids("tell another prefix", liar.Publish(background, "other:wake:x", "").Err())
	f.Loses()
}

func publishesPlainly(f *faulty) {
	f.Plain()
	a, b := f.Beside(), f.Beside()
	first := b.Locks("x") // a listens once it has waited
	was := a.WaitsPlainly("x")
	f.Listens("x", 1)
	f.Unlocks(first)
	lease := was.Gets()
	w := b.WaitsPlainly("x")
	f.Listens("x", 2)
	ticket, record := f.holding("x"), f.Keys("x").Record()
	client, _, _ := strings.Cut(ticket, ":")
	liar := f.may("+publish", "&"+f.Prefix+":wake:*", "&"+f.Prefix+":freed:*")
	for range 100 {
		f.Must(liar.Publish(background, f.Prefix+":freed:{x}", "x").Err())
	}
	f.Must(liar.Publish(background, f.Prefix+":wake:"+client, f.message("grant", ticket, record, f.newToken())).Err())
	f.Keeps(lease)
	w.Waits()
	f.Ends(lease)
	f.Must(liar.Publish(background, f.Prefix+":wake:"+client, f.message("forced", ticket, record, f.Holder("x"))).Err())
	<-lease.Done()
	f.Unlocks(w.Gets()) // b believes that it was forced, and gives the lock back
}

// stranded returns the ticket of a dead client, first in line for a lock, and a call that waits
// behind it.
func (f *faulty) stranded(name string) (ticket string, next *world.Wait) {
	f.Helper()
	ticket = "gone:1:30000::"
	f.Must(f.Direct.RPush(background, f.Keys(name).Queue(), "1:"+ticket).Err())
	f.Must(f.Direct.ZAdd(background, f.Keys(name).Waiters(), redis.Z{Score: float64(f.serverMillis() + 15000), Member: ticket}).Err())
	return ticket, f.Beside().Queues(name, 2, fairlock.Note("n"))
}

// hears fails unless the next message is that this ticket has the lock.
func (f *faulty) hears(sub *redis.PubSub, ticket, lock string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(background, world.Patience)
	defer cancel()
	m := new(redis.Message)
	for m.Payload == "" { // an empty message is a Locker that tests its right to publish
		var err error
		m, err = sub.ReceiveMessage(ctx)
		f.Must(err)
	}
	if !strings.HasPrefix(m.Payload, "grant ") || !strings.HasSuffix(m.Payload, " "+ticket+" "+f.Keys(lock).Record()) {
		f.Errorf("it hears %s", m.Payload)
	}
}

func subscribes(f *faulty) {
	sub := f.may("+subscribe +ping", "&fairlock:wake:*").Subscribe(background, "fairlock:wake:gone")
	defer sub.Close()
	f.Heard(1)
	lease := f.Beside().Locks("x")
	ticket, next := f.stranded("x")
	f.Heard(2)
	f.Unlocks(lease)
	if got := f.holding("x"); got != ticket {
		f.Errorf("%s has it", got)
	}
	if next.Gets(); next.Took < world.Claim*9/10 {
		f.Errorf("the next one came after %v", next.Took)
	}
	f.hears(sub, ticket, "x")

	ears := f.Direct.PubSubChannels(background, "*").Val()
	last := f.Beside().Queues("x", 1, fairlock.Note("told"))
	f.Heard(3)
	waits := f.inLine("x")
	for _, channel := range f.Direct.PubSubChannels(background, "*").Val() {
		if !slices.Contains(ears, channel) {
			f.Must(sub.Subscribe(background, channel))
			f.Until("two listen", func() bool { return f.Direct.PubSubNumSub(background, channel).Val()[channel] == 2 })
		}
	}
	f.Unlocks(next.Lease)
	f.Within(world.Claim*4/5, "the hand-over", func() { f.Unlocks(last.Gets()) })
	f.hears(sub, waits, "x")
}

func overhearsAll(f *faulty) {
	sub := f.may("+psubscribe +ping", "&fairlock:wake:*").PSubscribe(background, "fairlock:wake:*")
	defer sub.Close()
	_, err := sub.Receive(background)
	f.Must(err)
	lease := f.Beside().Locks("x")
	_, next := f.stranded("x")
	f.Heard(1)
	waits := f.inLine("x")
	f.Unlocks(lease)
	f.Within(world.Claim*4/5, "the next one's turn", func() { f.Unlocks(next.Gets()) })
	f.hears(sub, waits, "x")
}

func administers(f *faulty) {
	as := f.as("~fairlock:*", "&fairlock:wake:*", "+@read +@write +@pubsub +@scripting +@connection -@dangerous +info +time")
	v := f.targeted()
	full := f.User(as).Interface.(*fairlock.Locker)
	v.Ends(v.held)
	f.Must(full.ForceUnlock(background, "held"))
	<-v.held.Done()
	client, _, _ := strings.Cut(strings.TrimPrefix(v.waits, v.client()+":"), ":")
	f.Must(full.Evict(background, "bank", v.client()+":"+client))
	if err := v.wait.Fails(); !errors.Is(err, fairlock.ErrEvicted) {
		f.Error(err)
	}
	f.Unlocks(v.bank)
}
