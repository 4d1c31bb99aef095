package fairlock_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
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
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// faultPatience bounds waits that no promise bounds; none should come near it.
const faultPatience = 15 * time.Second

// faultSoon is what "at once" means on a busy machine.
const faultSoon = 2 * time.Second

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

	kind   newLocker // of lock under test
	prefix string    // its default
	users  []*faultUser

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
	f.kind, f.prefix = newFair, "fairlock"
	f.loadScripts()
	f.Cleanup(f.tidy)
}

// loadScripts makes the server know all scripts, so that every call is one EVALSHA.
func (f *faulty) loadScripts() {
	f.Helper()
	for _, verb := range []string{"enter", "leave", "renew", "reassert", "inspect", "force", "evict"} {
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
	source = lua.Whole(verb+".lua", func(name string) string {
		text, err := os.ReadFile("lua/" + name)
		if err != nil {
			tb.Fatal(err)
		}
		return string(text)
	})
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

// first matches first requests that speak for at least n calls: none of these has a place.
func (f *faulty) first(n int) func(args []string) bool {
	f.Helper()
	const tickets, each = 3 + 4 + 8, 4 // what comes before the tickets: script, keys, and what concerns all
	enter := f.verb("enter")
	return func(args []string) bool {
		if !enter(args) || len(args) < tickets+n*each {
			return false
		}
		for i := range n {
			if args[tickets+i*each+1] != "0" {
				return false
			}
		}
		return true
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
