package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

// Must fails if there is an error.
func (f *Faulty) Must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// Until polls for a condition. That is how a test waits for something to happen on the server.
func (f *Faulty) Until(what string, ok func() bool) {
	f.Helper()
	if !poll.Until(Patience, ok) {
		f.Fatalf("waited in vain until %s; on the server:\n%s", what, redistest.Dump(f.Direct))
	}
}

// Within fails unless act returns in time. The time for which the machine stood still does not
// count.
func (f *Faulty) Within(limit time.Duration, what string, act func()) {
	f.Helper()
	stalls := WatchStalls()
	defer stalls.Close()
	began := time.Now()
	act()
	took := time.Since(began)
	if stood := stalls.Total(); took-stood > limit {
		f.Errorf("%s took %v, of which the machine stood still for %v. That is more than %v", what, took, stood, limit)
	}
}

// Keys returns the keys of a lock.
func (f *Faulty) Keys(name string) lua.Keys {
	f.Helper()
	keys, err := lua.NewKeys(f.Prefix, name)
	f.Must(err)
	return keys
}

// Line returns the length of a lock's line.
func (f *Faulty) Line(name string) int {
	f.Helper()
	n, err := f.Direct.LLen(background, f.Keys(name).Queue()).Result()
	f.Must(err)
	return int(n)
}

// Holder returns the token in a lock's record, or 0 without a record.
func (f *Faulty) Holder(name string) int64 {
	f.Helper()
	token, err := f.Direct.HGet(background, f.Keys(name).Record(), "token").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		f.Fatal(err)
	}
	return token
}

// Heard returns when the server sees n subscriptions.
func (f *Faulty) Heard(n int) {
	f.Helper()
	f.Until("everybody listens", func() bool { return len(f.Direct.PubSubChannels(background, "*").Val()) == n })
}

// Listens returns when the server has n subscribers for the releases of the lock.
func (f *Faulty) Listens(name string, n int64) {
	f.Helper()
	channel := lua.Freed("fairlock:plain", f.Keys(name))
	f.Until("they listen", func() bool { return f.Direct.PubSubNumSub(background, channel).Val()[channel] == n })
}

// Free fails unless a new user can have the lock at once.
func (f *Faulty) Free(name string) {
	f.Helper()
	fresh := f.Beside()
	ctx, cancel := context.WithTimeout(background, Patience) // a try does not wait for the lock
	defer cancel()
	lease, err := fresh.TryLock(ctx, name)
	if err != nil {
		f.Fatalf("a newcomer does not get %q: %v; on the server:\n%s", name, err, redistest.Dump(f.Direct))
	}
	f.Took(lease)
	f.Unlocks(lease)
	f.Must(fresh.Close())
}

// OutlivesUsers reports whether a key stays, on purpose, when the last user of the locks has gone:
// a token of a lock under this prefix (that of one kind of lock), or the protocol of any prefix.
func OutlivesUsers(prefix, key string) bool {
	return strings.HasPrefix(key, prefix+":token:") || strings.HasSuffix(key, lua.ProtocolKey(""))
}

// tidy ends every test. It closes all Lockers and checks that nothing is left: no subscription, no
// goroutine and no key, except the protocol, tokens and marks, which end by themselves.
func (f *Faulty) tidy() {
	f.mu.Lock()
	leases := slices.Clone(f.leases)
	f.mu.Unlock()
	for _, lease := range leases { // only a failed test leaves any
		_ = lease.Unlock(background)
	}
	for _, u := range f.users {
		f.Within(Patience, "Close", func() { f.Must(u.Close()) })
		_ = u.Client.Close() // the test may have closed it
	}
	if f.Failed() {
		return
	}
	f.Until("no subscription is left", func() bool {
		return len(f.Direct.PubSubChannels(background, "*").Val()) == 0
	})
	for _, key := range f.Direct.Keys(background, "*").Val() {
		if ttl := f.Direct.PTTL(background, key).Val(); ttl < 0 && f.Direct.Exists(background, key).Val() == 1 {
			f.Errorf("%s stays for ever", key)
		}
		switch {
		case OutlivesUsers(f.Prefix, key):
			continue
		case strings.HasPrefix(key, f.Prefix+":waiters:"):
			if f.Direct.ZCount(background, key, "0", "+inf").Val() == 0 {
				continue // only marks
			}
		}
		f.Errorf("%s is left behind; on the server:\n%s", key, redistest.Dump(f.Direct))
	}
}

// RenewedAfter returns when the lease has been renewed over connections that are made from now on.
func (f *Faulty) RenewedAfter(lease *fairlock.Lease) {
	f.Helper()
	for range 2 { // the first renewal may have been under way
		until := lease.Deadline()
		f.Until("the lease is renewed", func() bool { return lease.Deadline().After(until) || lease.Err() != nil })
	}
	f.Must(lease.Err())
}
