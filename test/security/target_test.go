package security

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
	"github.com/fairlock/locks/test/written"
)

// as returns the options of a client whose user has these rights and no others.
func (f *faulty) as(rules ...string) *redis.Options {
	f.Helper()
	users, err := f.Direct.Do(background, "ACL", "USERS").StringSlice()
	f.Must(err)
	name := fmt.Sprint("user-", len(users))
	command := []any{"ACL", "SETUSER", name, "reset", "on", "nopass"}
	for _, rule := range rules {
		for word := range strings.FieldsSeq(rule) {
			command = append(command, word)
		}
	}
	f.Must(f.Direct.Do(background, command...).Err())
	return &redis.Options{Addr: f.Addr, Username: name, Password: "any"}
}

// may returns a client of such a user.
func (f *faulty) may(rules ...string) *redis.Client {
	f.Helper()
	rdb := redis.NewClient(f.as(rules...))
	f.Cleanup(func() { _ = rdb.Close() }) // nothing depends on how a connection ends
	return rdb
}

// onlyKeys are the commands for keys, without those that publish.
const onlyKeys = "+@hash +@list +@sortedset +@string +@keyspace -@dangerous"

// forbids fails unless the server says that the user has no right to do this.
func (f *faulty) forbids(what string, err error) {
	f.Helper()
	if !redis.HasErrorPrefix(err, "NOPERM") {
		f.Errorf("%s: %v", what, err)
	}
}

// inLine returns the last ticket in a lock's line.
func (f *faulty) inLine(name string) string {
	f.Helper()
	element, err := f.Direct.LIndex(background, f.Keys(name).Queue(), -1).Result()
	f.Must(err)
	_, ticket, _ := strings.Cut(element, ":")
	return ticket
}

// holding returns the ticket that holds a lock.
func (f *faulty) holding(name string) string {
	f.Helper()
	fields, err := f.Direct.HKeys(background, f.Keys(name).Record()).Result()
	f.Must(err)
	for _, field := range fields {
		if strings.Contains(field, ":") {
			return field
		}
	}
	f.Fatalf("nobody holds %s", name)
	return ""
}

// serverMillis returns the time by the server's clock.
func (f *faulty) serverMillis() int64 {
	f.Helper()
	now, err := f.Direct.Time(background).Result()
	f.Must(err)
	return now.UnixMilli()
}

// target is a user whom others try to deceive. It holds one lock and waits for another.
type target struct {
	*faulty
	user  *world.User
	said  *written.Text
	held  *fairlock.Lease // of "held"
	bank  *fairlock.Lease // another user's, of "bank", for which the target waits
	wait  *world.Wait
	holds string // the target's ticket that holds "held"
	waits string // its ticket in line for "bank"
	past  string // a ticket of a past call
	other *world.User
}

func (f *faulty) targeted() *target {
	f.Helper()
	t := &target{faulty: f, said: new(written.Text), other: f.Beside()}
	log := slog.New(slog.NewTextHandler(t.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.user = f.User(&redis.Options{Addr: f.Proxy.Addr()}, fairlock.WithLogger(log))
	over := t.user.Locks("past")
	t.past = f.holding("past")
	f.Unlocks(over)
	t.held, t.bank = t.user.Locks("held"), t.other.Locks("bank")
	t.wait = t.user.Queues("bank", 1, fairlock.Note("n"), fairlock.WithOwner("o"))
	t.holds, t.waits = f.holding("held"), f.inLine("bank")
	f.Heard(1)
	return t
}

// client returns the target's client id.
func (t *target) client() string {
	id, _, _ := strings.Cut(t.waits, ":")
	return id
}

// undisturbed fails unless the target still holds and waits as before. It first lets the target
// hear all that was published until now.
func (t *target) undisturbed(what string) {
	t.Helper()
	sign := t.user.Locks("sign")
	t.Ends(sign)
	t.Must(t.other.ForceUnlock(background, "sign"))
	<-sign.Done() // messages are heard in the order of their publication
	if t.wait.HasReturned() {
		t.Fatalf("%s: its call for bank returned %v, %v; on the server:\n%s", what, t.wait.Lease, t.wait.Err, redistest.Dump(t.Direct))
	}
	for _, lease := range []*fairlock.Lease{t.held, t.bank} {
		if err := lease.Err(); err != nil {
			t.Fatalf("%s: %s: %v", what, lease.Name(), err)
		}
	}
}

// goesOn fails unless the target gets "bank" when that is free, with a token of the usual size, and
// keeps its own lock.
func (t *target) goesOn() {
	t.Helper()
	t.Unlocks(t.bank)
	next := t.wait.Gets()
	if next.Token() <= t.bank.Token() || next.Token() > 2*t.bank.Token() {
		t.Errorf("token %d comes after %d", next.Token(), t.bank.Token())
	}
	t.Keeps(t.held)
	t.Unlocks(next)
	t.Unlocks(t.held)
}

func TestNothingRawOfANameStandsInAnErrorOrALine(t *testing.T) {
	const name = "a\x1b]0;title\x07\r\nb\xff"
	f := newFaulty(t)
	said := new(written.Text)
	u := f.User(&redis.Options{Addr: f.Addr}, fairlock.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
	lease := u.Locks(name, fairlock.Note(name), fairlock.WithOwner(name))
	f.Ends(lease)
	_, held := f.Beside().TryLock(background, name)
	f.Must(u.ForceUnlock(background, name))
	lost := lease.Unlock(background)
	// Another lock, because a leave for the forced one may be under way. That leave would put back
	// what the server forgets.
	other := "b" + name
	yields := f.Occupies(f.Keys(other).Token())
	_, damaged := u.TryLock(background, other)
	yields()
	stranger := f.User(f.as("~other:*", "&*", "+@all"))
	_, forbidden := stranger.TryLock(background, name)
	for _, err := range []error{held, lost, damaged, forbidden} {
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\x07\r\n") || strings.Contains(err.Error(), "\xff") {
			f.Errorf("%q", err)
		}
	}
	f.Must(u.Close()) // nobody writes to the log from here on
	for line := range strings.Lines(said.String()) {
		if !strings.HasPrefix(line, "time=") || strings.ContainsAny(line, "\x1b\x07\r") || strings.Contains(line, "\xff") {
			f.Errorf("the log says %q", line)
		}
	}
}
