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

// These are times for a test that breaks its server.
const (
	// Patience bounds waits that no promise bounds. No wait should come near it.
	Patience = 15 * time.Second
	// Soon is what "at once" means on a busy machine.
	Soon = 2 * time.Second
	// BriefLease is a lease whose renewals a test can wait for.
	BriefLease = 600 * time.Millisecond
	// CalmLease is renewed in time however many tests run at the same time.
	CalmLease = 3 * time.Second
)

// Faulty is a server that a test breaks, and a proxy in front that loses and delays requests and
// replies.
//
// Every test on a Faulty ends with the same look: see tidy. Its methods fail the test.
type Faulty struct {
	*testing.T
	Server *redistest.Server // nil: the server is embedded
	Addr   string            // the server's own
	Proxy  *faultproxy.Proxy
	Direct *redis.Client // connected past the proxy

	kind   Kind   // the kind of lock under test
	Prefix string // that kind's default prefix
	users  []*User

	mu     sync.Mutex
	leases []*fairlock.Lease // leases that the test has received and not unlocked
}

// NewFaulty returns a Faulty with a real server.
func NewFaulty(t *testing.T, args ...string) *Faulty {
	t.Helper()
	NoGoroutineLeft(t)
	server := redistest.Start(t, args...)
	f := &Faulty{T: t, Server: server, Addr: server.Addr(), Direct: server.Client(t)}
	f.begin()
	return f
}

// NewFaultyEmbedded returns a Faulty with an embedded server.
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

// Together runs subtests at the same time, because most of them spend most of their time waiting.
func Together(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	NoGoroutineLeft(t)
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// NoGoroutineLeft fails the test if a goroutine outlives the test and its cleanups. Subtests run
// beside others, so only the outermost test is checked.
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
