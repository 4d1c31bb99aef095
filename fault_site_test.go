package fairlock_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/internal/faultproxy"
	"github.com/fairlock/locks/internal/redistest"
	"github.com/fairlock/locks/lua"
)

const (
	// faultPatience bounds waits that no promise bounds; none should come near it.
	faultPatience = 15 * time.Second
	// faultSoon is what "at once" means on a busy machine.
	faultSoon = 2 * time.Second
)

var faultCtx = context.Background()

// faulty is a server that a test breaks, and a proxy before it that loses and delays what passes.
//
// Every test on it ends with the same look: see tidy.
type faulty struct {
	*testing.T
	server *redistest.Server // nil: the embedded one
	addr   string            // the server's own
	proxy  *faultproxy.Proxy
	direct *redis.Client // past the proxy

	users []*faultUser

	mu     sync.Mutex
	leases []*fairlock.Lease // that were handed to the test and have not been unlocked
}

// together runs subtests at the same time: most of them wait for something most of theirs.
func together(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	noGoroutineLeft(t)
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// onFaulty runs the test on a real server and on the embedded one.
func onFaulty(t *testing.T, test func(f *faulty)) {
	t.Helper()
	together(t, map[string]func(*testing.T){
		"real":     func(t *testing.T) { test(newFaulty(t)) },
		"embedded": func(t *testing.T) { test(newFaultyEmbedded(t)) },
	})
}

// newFaulty is a real server of the test's own.
func newFaulty(t *testing.T, args ...string) *faulty {
	t.Helper()
	noGoroutineLeft(t)
	server := redistest.Start(t, args...)
	f := &faulty{T: t, server: server, addr: server.Addr(), direct: server.Client(t)}
	f.begin()
	return f
}

func newFaultyEmbedded(t *testing.T) *faulty {
	t.Helper()
	noGoroutineLeft(t)
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return newFaultyAt(t, server.Addr())
}

func newFaultyAt(t *testing.T, addr string) *faulty {
	t.Helper()
	f := &faulty{T: t, addr: addr, direct: redis.NewClient(&redis.Options{Addr: addr})}
	t.Cleanup(func() { _ = f.direct.Close() }) // nothing depends on how a connection ends
	f.begin()
	return f
}

func (f *faulty) begin() {
	f.Helper()
	f.proxy = faultproxy.New(f, f.addr)
	f.loadScripts()
	f.Cleanup(f.tidy)
}

// loadScripts makes the server know all scripts, so that every call is one EVALSHA.
func (f *faulty) loadScripts() {
	f.Helper()
	for _, verb := range []string{"enter", "leave", "renew", "reassert", "inspect", "force"} {
		source, _ := faultScript(f, verb)
		f.must(f.direct.ScriptLoad(faultCtx, source).Err())
	}
}

// noGoroutineLeft fails the test if a goroutine outlives it and everything that was cleaned up after it. Of subtests, which
// run beside others, only the outermost test looks.
func noGoroutineLeft(t *testing.T) {
	if strings.Contains(t.Name(), "/") {
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
			if err = goleak.Find(before); err == nil {
				return
			}
		}
		t.Errorf("goroutines that outlive the test: %v", err)
	})
}

// faultScript is a verb's script as it goes over the wire, and its hash.
func faultScript(tb testing.TB, verb string) (source, sha string) {
	tb.Helper()
	read := func(name string) string {
		text, err := os.ReadFile("lua/" + name)
		if err != nil {
			tb.Fatal(err)
		}
		return string(text)
	}
	source = strings.Replace(read(verb+".lua"), "--#include advance.lua", read("advance.lua"), 1)
	sum := sha1.Sum([]byte(source))
	return source, hex.EncodeToString(sum[:])
}

// verb matches the calls of one script. Where texts are given, one argument must contain one of them.
func (f *faulty) verb(name string, texts ...string) func(args []string) bool {
	f.Helper()
	_, sha := faultScript(f, name)
	call := faultproxy.CommandWith("evalsha", sha)
	return func(args []string) bool {
		return call(args) && (len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, text) })
		}))
	}
}

// once has the action done to the next request that matches.
func (f *faulty) once(match func([]string) bool, action faultproxy.Action) *faultproxy.Handle {
	f.Helper()
	return f.proxy.Add(faultproxy.Rule{Match: match, Times: 1, Action: action})
}

// all has the action done to every request that matches from now on.
func (f *faulty) all(match func([]string) bool, action faultproxy.Action) *faultproxy.Handle {
	f.Helper()
	return f.proxy.Add(faultproxy.Rule{Match: match, Action: action})
}

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
	keys, err := lua.NewKeys("fairlock", name)
	f.must(err)
	return keys
}

// line is the length of a lock's line.
func (f *faulty) line(name string) int {
	f.Helper()
	n, err := f.direct.LLen(faultCtx, f.keys(name).Queue).Result()
	f.must(err)
	return int(n)
}

// holder is the token in a lock's record, 0 if there is none.
func (f *faulty) holder(name string) int64 {
	f.Helper()
	token, err := f.direct.HGet(faultCtx, f.keys(name).Record, "token").Int64()
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
		case strings.HasPrefix(key, "fairlock:token:"):
			continue
		case strings.HasPrefix(key, "fairlock:waiters:"):
			if f.direct.ZCount(faultCtx, key, "0", "+inf").Val() == 0 {
				continue // only marks
			}
		}
		f.Errorf("%s is left behind; on the server:\n%s", key, f.dump())
	}
}
