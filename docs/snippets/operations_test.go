package snippets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/otel"
	"github.com/fairlock/locks/reentrant"
	"github.com/fairlock/locks/test/redistest"
)

// process is the part of a ticket, or of an owner that is not named, that all of one Locker have in
// common.
func process(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}

func TestTheObserverCountsWhatTheGuideSays(t *testing.T) {
	rdb := embeddedClient(t)
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observed := func() error {
		//guide:operations.md
		observer, err := otel.New(otel.WithMeterProvider(meters), otel.WithKind("fair"))
		if err != nil {
			return err
		}
		locker := fairlock.New(rdb, fairlock.WithObserver(observer))
		//guide:end
		defer locker.Close()
		return errors.Join(locker.Do(t.Context(), "x", func(context.Context, *fairlock.Lease) error { return nil }), loses(locker))
	}
	if err := observed(); !errors.Is(err, fairlock.ErrLost) {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	must(t, reader.Collect(t.Context(), &all))
	known := map[string]bool{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		known[m.Name] = true
	}
	for _, name := range []string{"fairlock.lost", "fairlock.wait.duration", "fairlock.hold.duration", "fairlock.held"} {
		if !known[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// loses takes a lock and loses it.
func loses(locker *fairlock.Locker) error {
	return locker.Do(context.Background(), "x", func(ctx context.Context, _ *fairlock.Lease) error {
		return locker.ForceUnlock(ctx, "x")
	})
}

//guide:operations.md

// slow tells of calls that waited for long.
type slow struct{ log *slog.Logger }

// Observe is called by the Locker.
func (s slow) Observe(e fairlock.Event) {
	if e.Kind == fairlock.Acquired && e.Took > 5*time.Second {
		s.log.Warn("waited for long", "lock", e.Name, "took", e.Took)
	}
}

//guide:end

func TestAnObserverIsOneMethod(t *testing.T) {
	var text bytes.Buffer
	s := slow{slog.New(slog.NewTextHandler(&text, nil))}
	locker := fairlock.New(embeddedClient(t), fairlock.WithObserver(s))
	defer locker.Close()
	must(t, take(t, locker, "x").Unlock(t.Context()))
	s.Observe(fairlock.Event{Kind: fairlock.Acquired, Name: "y", Took: time.Minute})
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "lock=y took=1m0s") {
		t.Errorf("it says %q", got)
	}
}

func TestALockTakesAsMuchMemoryAsTheGuideSays(t *testing.T) {
	const n, crowded = 6000, 2000 // a server's own ups and downs are some hundred kilobytes
	rdb := redistest.Start(t).Client(t)
	locker, ctx := fairlock.New(rdb), t.Context()
	defer locker.Close()
	must(t, take(t, locker, "the first").Unlock(ctx))
	used := usedMemory(t, rdb)
	for i := range n {
		must(t, take(t, locker, fmt.Sprintf("used:%07d", i)).Unlock(ctx))
	}
	takes(t, "a lock that was used within the last 16 minutes", "about 150 bytes", 150, (usedMemory(t, rdb)-used)/n)
	used = usedMemory(t, rdb)
	for i := range n {
		take(t, locker, fmt.Sprintf("held:%07d", i))
	}
	takes(t, "a lock that is held", "about 500 bytes", 500, (usedMemory(t, rdb)-used)/n)
	take(t, locker, "order:busy")
	crowd(t, locker, "order:busy", crowded)
	line := 0
	for _, key := range []string{"fairlock:queue:{order:busy}", "fairlock:waiters:{order:busy}"} {
		of, err := rdb.MemoryUsage(ctx, key, 0).Result()
		must(t, err)
		line += int(of)
	}
	takes(t, "a waiter", "about 220 bytes", 220, line/crowded)
}

// crowd has n calls wait until the end of the test.
func crowd(t *testing.T, locker *fairlock.Locker, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var left atomic.Int64
	left.Add(int64(n))
	over := make(chan struct{})
	for range n {
		go func() {
			_, _ = locker.Lock(ctx, name)
			if left.Add(-1) == 0 {
				close(over)
			}
		}()
	}
	t.Cleanup(func() {
		cancel()
		<-over
	})
	for waiting := 0; waiting < n; time.Sleep(5 * time.Millisecond) {
		state, err := locker.Inspect(ctx, name)
		must(t, err)
		waiting = state.Waiting
	}
}

func usedMemory(t *testing.T, rdb *redis.Client) (bytes int) {
	t.Helper()
	text, err := rdb.Info(t.Context(), "memory").Result()
	must(t, err)
	_, after, _ := strings.Cut(text, "used_memory:")
	_, err = fmt.Sscan(after, &bytes)
	must(t, err)
	return bytes
}

// takes checks that a row of the guide is true, to a third: how full the table of keys is makes a
// difference.
func takes(t *testing.T, what, said string, want, got int) {
	t.Helper()
	if !strings.Contains(guides(t)["operations.md"], "| "+what+" | "+said+" |") {
		t.Errorf("the guide does not say %q of %s", said, what)
	}
	if got < want*2/3 || got > want*4/3 {
		t.Errorf("%s takes %d bytes, and not %s", what, got, said)
	}
}

// The rights that the guide tells, in its order.
const (
	ofOneServer = iota
	ofANode
	inJavasLine
)

// restricted is a client of a user with those rights, and more.
func restricted(t *testing.T, s *redistest.Server, rights int, more ...string) *redis.Client {
	t.Helper()
	rule := strings.Fields(blocks(guides(t)["operations.md"], "acl")[rights])
	command := make([]any, 0, len(rule)+len(more))
	for _, word := range append(rule, more...) {
		command = append(command, word)
	}
	must(t, s.Client(t).Do(t.Context(), command...).Err())
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "password" })
}

func TestTheRightsThatTheGuideTellsAreEnough(t *testing.T) {
	s := redistest.Start(t)
	rdb := restricted(t, s, ofOneServer)
	for _, kind := range []fairlock.Interface{
		fairlock.New(rdb, fairlock.WithLease(renewedSoon)), reentrant.New(rdb, reentrant.WithLease(renewedSoon)),
	} {
		exercises(t, kind, fairlock.Note("first"))
		must(t, kind.Close())
	}
	for _, entry := range s.Client(t).ACLLog(t.Context(), 10).Val() {
		if entry.Object != "client|setinfo" { // go-redis tells its name where it can, and goes on where it may not
			t.Errorf("refused: %+v", *entry)
		}
	}
	listing := restricted(t, s, ofOneServer, "+scan", "+wait")
	locker := fairlock.New(listing)
	defer locker.Close()
	take(t, locker, "x")
	for state, err := range locker.List(t.Context()) {
		if err != nil || state.Name != "x" {
			t.Errorf("List: %v, %v", state, err)
		}
	}
	if _, err := locker.Lock(t.Context(), "y", fairlock.WithReplicas(1, time.Millisecond)); !errors.Is(err, fairlock.ErrNotReplicated) {
		t.Errorf("WithReplicas: %v", err)
	}
}

// renewedSoon is a lease for exercises: its renewal comes after a second, and in time on a busy
// machine too.
const renewedSoon = 3 * time.Second

// exercises does with a lock all that there is to do, and sees it renewed.
func exercises(t *testing.T, locker fairlock.Interface, options ...fairlock.LockOption) {
	t.Helper()
	ctx := t.Context()
	lease := take(t, locker, "order:42", options...)
	until := lease.Deadline()
	next := make(chan *fairlock.Lease)
	queued := make(chan struct{})
	go func() {
		got, _ := locker.Lock(ctx, "order:42", fairlock.OnQueued(func(int) { close(queued) }))
		next <- got
	}()
	<-queued
	for lease.Deadline().Equal(until) { // a renewal is on its way
		select {
		case <-lease.Done():
			t.Fatal(lease.Err())
		case <-time.After(time.Millisecond):
		}
	}
	must(t, lease.Extend(ctx, 2*renewedSoon)) // by more than what is left
	if fair, ok := locker.(*fairlock.Locker); ok {
		evicts(t, fair)
	}
	must(t, lease.Unlock(ctx))
	lease = <-next
	must(t, lease.Err())
	must(t, locker.ForceUnlock(ctx, "order:42"))
	<-lease.Done()
}

// evicts has another one join the line, and takes him out again.
func evicts(t *testing.T, locker *fairlock.Locker) {
	t.Helper()
	queues(t, locker, "order:42")
	state, err := locker.Inspect(t.Context(), "order:42")
	must(t, err)
	must(t, locker.Evict(t.Context(), "order:42", state.Waiters[len(state.Waiters)-1].ID))
}
