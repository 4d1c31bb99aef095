package otel

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// contention is two Lockers with one Observer, and with what their callers saw.
type contention struct {
	*telemetry
	lockers [2]fairlock.Interface
	admin   *redis.Client

	mu             sync.Mutex
	calls          map[string]int           // by outcome
	waits          map[string]time.Duration // by outcome
	released, lost int
}

var contended = flag.Duration("contended", 300*time.Millisecond, "how long callers contend for one lock of each kind, in fake time")

var kinds = map[string]func(redis.UniversalClient, ...fairlock.Option) fairlock.Interface{
	"fairlock": func(rdb redis.UniversalClient, o ...fairlock.Option) fairlock.Interface {
		return fairlock.New(rdb, o...)
	},
	"fairlock:plain": func(rdb redis.UniversalClient, o ...fairlock.Option) fairlock.Interface {
		return reentrant.New(rdb, o...)
	},
}

func TestUnderContentionTheMetricsAreWhatTheCallersSaw(t *testing.T) {
	for kind, locker := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				c := contend(t, kind, locker)
				kept := c.lock(c.ctx, c.lockers[0], "kept", fairlock.LeaseFor(time.Hour))
				c.refused("kept")
				c.forgotten(kind, "doomed")
				c.contend("stock")
				c.closes() // but held locks stay held
				c.addsUp(1)
				c.durations()
				c.spansAddUp()
				c.tellsNoName("kept", "doomed", "stock")
				c.unlock(kept)
				c.closes()
				c.addsUp(0)
			})
		})
	}
}

func contend(t *testing.T, kind string, locker func(redis.UniversalClient, ...fairlock.Option) fairlock.Interface) *contention {
	server := pipes.New(t)
	c := &contention{telemetry: newTelemetry(t, WithKind(kind)), calls: map[string]int{}, waits: map[string]time.Duration{}}
	dial := func() *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: server.Dial})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	c.admin = dial()
	for i := range c.lockers {
		quiet := fairlock.WithLogger(slog.New(slog.DiscardHandler))
		l := locker(dial(), fairlock.WithObserver(c), fairlock.WithLease(time.Second), fairlock.WithPrefix(strings.TrimSuffix(kind, ":plain")), quiet)
		t.Cleanup(func() { _ = l.Close() })
		if _, err := l.Inspect(t.Context(), "kept"); err != nil { // so the first contact with the server is no part of a call
			t.Fatal(err)
		}
		c.lockers[i] = l
	}
	return c
}

// closes closes the Lockers. After that the Observer has been told of everything.
func (c *contention) closes() {
	for _, l := range c.lockers {
		if err := l.Close(); err != nil {
			c.Error(err)
		}
	}
}

// call calls Lock or TryLock and notes what its caller saw.
func (c *contention) call(of func() (*fairlock.Lease, error)) (*fairlock.Lease, error) {
	began := time.Now()
	lease, err := of()
	took := time.Since(began)
	outcome := acquired
	switch {
	case errors.Is(err, context.Canceled):
		outcome = canceled
	case errors.Is(err, fairlock.ErrHeld):
		outcome = held
	case err != nil:
		outcome = failed
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[outcome]++
	c.waits[outcome] += took
	return lease, err
}

func (c *contention) lock(ctx context.Context, l fairlock.Interface, name string, options ...fairlock.LockOption) *fairlock.Lease {
	lease, _ := c.call(func() (*fairlock.Lease, error) { return l.Lock(ctx, name, options...) })
	return lease
}

func (c *contention) tryLock(l fairlock.Interface, name string) (*fairlock.Lease, error) {
	return c.call(func() (*fairlock.Lease, error) { return l.TryLock(c.ctx, name) })
}

// impatient calls Lock and cancels it as soon as it has to wait.
func (c *contention) impatient(l fairlock.Interface, name string) *fairlock.Lease {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	return c.lock(ctx, l, name, fairlock.OnQueued(func(int) { cancel() }))
}

// unlock ends a Lease, if there is one, after a moment.
func (c *contention) unlock(lease *fairlock.Lease) {
	if lease == nil {
		return
	}
	time.Sleep(time.Millisecond)
	err := lease.Unlock(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.released++
	case errors.Is(err, fairlock.ErrLost):
		c.lost++
	default:
		c.Error(err)
	}
}

// refused lets calls ask in vain for a lock that is kept.
func (c *contention) refused(name string) {
	for _, l := range c.lockers {
		if _, err := c.tryLock(l, name); !errors.Is(err, fairlock.ErrHeld) {
			c.Errorf("TryLock of a held lock: %v", err)
		}
		if c.impatient(l, name) != nil {
			c.Error("two have the lock")
		}
	}
}

// forgotten makes the server forget a held lock.
func (c *contention) forgotten(prefix, name string) {
	lease := c.lock(c.ctx, c.lockers[0], name)
	keys, err := lua.NewKeys(prefix, name)
	if err != nil || c.admin.Del(c.ctx, keys.Record()).Val() != 1 {
		c.Fatalf("%q: %v", keys.Record(), err)
	}
	<-lease.Done()
	c.unlock(lease)
	if c.lost != 1 {
		c.Errorf("%d lost", c.lost)
	}
}

// contend lets many callers contend for one lock. Some of them are impatient.
func (c *contention) contend(name string) {
	began := time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		l := c.lockers[i%2]
		all.Go(func() {
			for n := 0; time.Since(began) < *contended; n++ {
				switch (n + i) % 6 {
				case 0:
					c.unlock(c.impatient(l, name))
				case 1:
					lease, _ := c.tryLock(l, name)
					c.unlock(lease)
				default:
					c.unlock(c.lock(c.ctx, l, name))
				}
			}
		})
	}
	all.Wait()
}

// addsUp compares the counts while now locks are still held.
func (c *contention) addsUp(now int) {
	c.Helper()
	ended, _ := c.total("fairlock.hold.duration", "")
	back, _ := c.total("fairlock.hold.duration", released)
	for what, pair := range map[string][2]int{
		"acquired":            {c.value("fairlock.acquisitions"), c.calls[acquired]},
		"ended and held":      {ended + c.value("fairlock.held"), c.calls[acquired]},
		"held":                {c.value("fairlock.held"), now},
		"released":            {back, c.released},
		"lost":                {c.value("fairlock.lost"), c.lost},
		"released and lost":   {ended, c.released + c.lost},
		"those that are lost": {ended - back, c.lost},
	} {
		if pair[0] != pair[1] {
			c.Errorf("%s: %d, not %d", what, pair[0], pair[1])
		}
	}
	if queued := c.value("fairlock.queued"); queued < c.calls[canceled] || queued == 0 {
		c.Errorf("%d queued, of which %d were canceled", queued, c.calls[canceled])
	}
}

// durations compares the durations in the metrics with those that the callers saw. In fake time
// they are the same: nothing takes time but a wait.
func (c *contention) durations() {
	for _, outcome := range []string{acquired, held, canceled, failed} {
		count, sum := c.total("fairlock.wait.duration", outcome)
		if count != c.calls[outcome] {
			c.Errorf("%s: %d calls, not %d", outcome, count, c.calls[outcome])
		}
		want := c.waits[outcome].Seconds()
		if math.Abs(sum-want) > 1e-6 {
			c.Errorf("%s: %d calls took %v s, not %v s", outcome, count, sum, want)
		}
	}
}

// spansAddUp expects one span of each wait and of each ended hold, all of them children of the
// callers' span.
func (c *contention) spansAddUp() {
	count := map[string]int{}
	for _, span := range c.spans.Ended() {
		count[span.Name()]++
		if span.Parent().SpanID() != c.parent.SpanID() {
			c.Errorf("a %s is not its caller's", span.Name())
		}
		if span.Status().Code == codes.Error {
			count["broken"]++
		}
	}
	calls := 0
	for _, n := range c.calls {
		calls += n
	}
	if count[waitSpan] != calls || count[holdSpan] != c.released+c.lost || count["broken"] != c.lost {
		c.Errorf("%v, of %d calls, %d released and %d lost", count, calls, c.released, c.lost)
	}
}

func (c *contention) tellsNoName(names ...string) {
	for _, a := range c.attributes() {
		if a.Key == "fairlock.name" || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(a.Value.String(), n) }) {
			c.Errorf("it tells %v", a)
		}
	}
	_, points := c.collect()
	for name, of := range points {
		kinds := map[attribute.Value]bool{}
		for _, p := range of {
			kind, _ := p.attributes.Value("fairlock.kind")
			kinds[kind] = true
		}
		if len(of) > 3 || len(kinds) != 1 { // one for each outcome
			c.Errorf("%s has %d series", name, len(of))
		}
	}
}
