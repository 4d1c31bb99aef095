package world

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/redistest"
)

// Times of a test on a server that it breaks.
const (
	// Patience bounds waits that no promise bounds; none should come near it.
	Patience = 15 * time.Second
	// Soon is what "at once" means on a busy machine.
	Soon = 2 * time.Second
	// BriefLease is one whose renewals a test can wait for.
	BriefLease = 600 * time.Millisecond
	// CalmLease is one that is renewed in time however many tests run beside.
	CalmLease = 1500 * time.Millisecond
)

// Faulty is a server that a test breaks, and a proxy before it that loses and delays what passes.
//
// Every test on it ends with the same look: see tidy. Its methods fail the test.
type Faulty struct {
	*testing.T
	Server *redistest.Server // nil: the embedded one
	Addr   string            // the server's own
	Proxy  *faultproxy.Proxy
	Direct *redis.Client // past the proxy

	kind   Kind   // of lock under test
	Prefix string // its default
	users  []*User

	mu     sync.Mutex
	leases []*fairlock.Lease // that were handed to the test and have not been unlocked
}

// NewFaulty is a real server of the test's own.
func NewFaulty(t *testing.T, args ...string) *Faulty {
	t.Helper()
	NoGoroutineLeft(t)
	server := redistest.Start(t, args...)
	f := &Faulty{T: t, Server: server, Addr: server.Addr(), Direct: server.Client(t)}
	f.begin()
	return f
}

// NewFaultyEmbedded is an embedded server of the test's own.
func NewFaultyEmbedded(t *testing.T) *Faulty {
	t.Helper()
	NoGoroutineLeft(t)
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	f := &Faulty{T: t, Addr: server.Addr(), Direct: redis.NewClient(&redis.Options{Addr: server.Addr()})}
	t.Cleanup(func() { _ = f.Direct.Close() }) // nothing depends on how a connection ends
	f.begin()
	return f
}

// OnFaulty runs the test on a real server and on the embedded one.
func OnFaulty(t *testing.T, test func(f *Faulty)) {
	t.Helper()
	Together(t, map[string]func(*testing.T){
		"real":     func(t *testing.T) { test(NewFaulty(t)) },
		"embedded": func(t *testing.T) { test(NewFaultyEmbedded(t)) },
	})
}

func (f *Faulty) begin() {
	f.Helper()
	f.Proxy = faultproxy.New(f, f.Addr)
	f.kind, f.Prefix = Fair, "fairlock"
	f.LoadScripts()
	f.Cleanup(f.tidy)
}

// Plain has the users of f use plain locks.
func (f *Faulty) Plain() *Faulty {
	f.kind, f.Prefix = Plain, "fairlock:plain"
	return f
}

// Together runs subtests at the same time: most of them wait for something most of theirs.
func Together(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	NoGoroutineLeft(t)
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// NoGoroutineLeft fails the test if a goroutine outlives it and everything that was cleaned up
// after it. Of subtests, which run beside others, only the outermost test looks.
func NoGoroutineLeft(t *testing.T) {
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
