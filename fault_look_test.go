package fairlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
)

func (f *faulty) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// until polls, which is how a test waits for what happens on the server.
func (f *faulty) until(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(faultPatience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("waited in vain until %s; on the server:\n%s", what, f.dump())
		}
	}
}

// within fails unless act returns in time.
func (f *faulty) within(limit time.Duration, what string, act func()) {
	f.Helper()
	began := time.Now()
	act()
	if took := time.Since(began); took > limit {
		f.Errorf("%s took %v, which is more than %v", what, took, limit)
	}
}

// lateness measures by how much a timer of d is late on this busy machine.
func (f *faulty) lateness(d time.Duration) (late func() time.Duration) {
	began, passed := time.Now(), make(chan time.Duration, 1)
	time.AfterFunc(d, func() { passed <- time.Since(began) - d })
	return sync.OnceValue(func() time.Duration { return <-passed })
}

func (f *faulty) keys(name string) lua.Keys {
	f.Helper()
	keys, err := lua.NewKeys(f.prefix, name)
	f.must(err)
	return keys
}

// line is the length of a lock's line.
func (f *faulty) line(name string) int {
	f.Helper()
	n, err := f.direct.LLen(faultCtx, f.keys(name).Queue()).Result()
	f.must(err)
	return int(n)
}

// holder is the token in a lock's record, 0 if there is none.
func (f *faulty) holder(name string) int64 {
	f.Helper()
	token, err := f.direct.HGet(faultCtx, f.keys(name).Record(), "token").Int64()
	if err != nil && err != redis.Nil {
		f.Fatal(err)
	}
	return token
}

// dump is everything on the server.
func (f *faulty) dump() string {
	f.Helper()
	var all strings.Builder
	for _, key := range f.direct.Keys(faultCtx, "*").Val() {
		var content any
		switch f.direct.Type(faultCtx, key).Val() {
		case "hash":
			content = f.direct.HGetAll(faultCtx, key).Val()
		case "list":
			content = f.direct.LRange(faultCtx, key, 0, -1).Val()
		case "zset":
			content = f.direct.ZRangeWithScores(faultCtx, key, 0, -1).Val()
		default:
			content = f.direct.Get(faultCtx, key).Val()
		}
		fmt.Fprintf(&all, "%s %.2000s for %v\n", key, fmt.Sprint(content), f.direct.PTTL(faultCtx, key).Val())
	}
	return all.String()
}

// free fails unless the lock can be had at once by somebody who was never there.
func (f *faulty) free(name string) {
	f.Helper()
	fresh := f.beside()
	ctx, cancel := context.WithTimeout(faultCtx, faultSoon)
	defer cancel()
	lease, err := fresh.TryLock(ctx, name)
	if err != nil {
		f.Fatalf("a newcomer does not get %q: %v; on the server:\n%s", name, err, f.dump())
	}
	f.took(lease)
	f.unlocks(lease)
	f.must(fresh.Close())
}

// tidy is how every test ends: all Lockers are closed, and neither a subscription nor a goroutine nor a key is left but
// tokens and marks, which end by themselves.
func (f *faulty) tidy() {
	f.mu.Lock()
	leases := slices.Clone(f.leases)
	f.mu.Unlock()
	for _, lease := range leases { // only a failed test leaves any
		_ = lease.Unlock(faultCtx)
	}
	for _, u := range f.users {
		f.within(faultPatience, "Close", func() { f.must(u.Close()) })
		_ = u.rdb.Close() // the test may have closed it
	}
	if f.Failed() {
		return
	}
	f.until("no subscription is left", func() bool {
		return len(f.direct.PubSubChannels(faultCtx, "*").Val()) == 0
	})
	for _, key := range f.direct.Keys(faultCtx, "*").Val() {
		if ttl := f.direct.PTTL(faultCtx, key).Val(); ttl < 0 && f.direct.Exists(faultCtx, key).Val() == 1 {
			f.Errorf("%s stays for ever", key)
		}
		switch {
		case strings.HasPrefix(key, f.prefix+":token:"):
			continue
		case strings.HasPrefix(key, f.prefix+":waiters:"):
			if f.direct.ZCount(faultCtx, key, "0", "+inf").Val() == 0 {
				continue // only marks
			}
		}
		f.Errorf("%s is left behind; on the server:\n%s", key, f.dump())
	}
}
