package web

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/server"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/test/poll"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

// silence is a logger for go-redis, as in the program.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// patienceOfTests bounds every wait. No wait should come near it.
const patienceOfTests = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll.Until(patienceOfTests, ok) {
		t.Fatalf("waited %v in vain until %s", patienceOfTests, what)
	}
}

// served is a site that is served, and a client of it.
type served struct {
	t    testing.TB
	url  string // without a slash at the end
	site *site
	http *http.Client
	stop func() // serving; returns when the site has ended

	mu      sync.Mutex // guards all below
	changes []change
}

// serves serves the page of the Redis at this address.
func serves(t testing.TB, redisAt string, changes bool, token string) *served {
	t.Helper()
	return servesUnder(t, "", redisAt, changes, token)
}

// servesUnder serves the locks under a prefix: of both kinds, unless some are given.
func servesUnder(t testing.TB, prefix, redisAt string, changes bool, token string, kinds ...string) *served {
	t.Helper()
	keyspace := locks.Keyspace{Connection: server.Connection{Redis: []string{"redis://" + redisAt}}, Prefix: prefix}
	if kinds == nil {
		kinds = []string{locks.Fair, locks.Plain}
	}
	store, err := keyspace.Open(kinds...)
	must(t, err)
	t.Cleanup(store.Close)
	store.Notices.Mute()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &served{t: t, url: "http://" + listener.Addr().String(), http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patienceOfTests}}
	c.site = newSite(newWatcher(store.Servers[0], store.Lockers), redisAt, changes, func(done change) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes = append(c.changes, done)
	})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- c.site.serve(ctx, listener, token) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// asks sends a request. The options may change it.
func (c *served) asks(method, path string, form url.Values, options ...func(*http.Request)) (status int, header http.Header, body string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.url+path, strings.NewReader(form.Encode()))
	must(c.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, option := range options {
		option(r)
	}
	answer, err := c.http.Do(r)
	must(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(c.t, err)
	return answer.StatusCode, answer.Header, string(text)
}

// shows gets a page and checks that it has these texts.
func (c *served) shows(status int, path string, texts ...string) string {
	c.t.Helper()
	got, _, body := c.asks(http.MethodGet, path, nil)
	if got != status {
		c.t.Fatalf("GET %s: %d, want %d\n%s", path, got, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			c.t.Errorf("GET %s does not show %q:\n%s", path, text, body)
		}
	}
	return body
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if name == "Host" {
			r.Host = value
			return
		}
		r.Header.Set(name, value)
	}
}

// sealIn returns the seal of the form in a page.
func sealIn(t testing.TB, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="seal" value="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("there is no form:\n%s", page)
	}
	return found[1]
}

// locker returns a Locker on the Redis at this address.
func locker(t testing.TB, redisAt string, options ...fairlock.Option) *fairlock.Locker {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redisAt})
	l := fairlock.New(rdb, append(options, fairlock.WithLogger(slog.New(slog.DiscardHandler)))...)
	t.Cleanup(func() {
		_ = l.Close()
		_ = rdb.Close()
	})
	return l
}

// soon makes a holder that does not listen learn of a force in two seconds.
var soon = fairlock.WithLease(6 * time.Second)

// take holds a lock until the end of the test.
func take(t testing.TB, l fairlock.Interface, name string, options ...fairlock.LockOption) *fairlock.Lease {
	t.Helper()
	lease, err := l.Lock(context.Background(), name, options...)
	must(t, err)
	t.Cleanup(func() { _ = lease.Unlock(context.Background()) })
	return lease
}

// waits makes a call wait for a lock until the end of the test. The channel gets its error.
func waits(t testing.TB, l *fairlock.Locker, name string, options ...fairlock.LockOption) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	queued := make(chan int, 1)
	ended := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() {
		lease, err := l.Lock(ctx, name, append(options, fairlock.OnQueued(func(at int) {
			select {
			case queued <- at:
			default:
			}
		}))...)
		ended <- err
		<-ctx.Done()
		_ = lease.Unlock(ctx)
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	select {
	case <-queued:
	case err := <-ended:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(patienceOfTests):
		t.Fatal("it is not in line")
	}
	return ended
}

// servers runs a test on a real server and on the embedded one.
func servers(t *testing.T, test func(t *testing.T, redisAt string)) {
	t.Parallel()
	t.Run("real", func(t *testing.T) { test(t, redistest.Start(t).Addr()) })
	t.Run("embedded", func(t *testing.T) {
		s, err := embedded.Start()
		must(t, err)
		t.Cleanup(s.Close)
		test(t, s.Addr())
	})
}

// in is the address of a lock's page.
func in(path, name string, more ...string) string { return key{locks.Fair, name}.href(path, more...) }
