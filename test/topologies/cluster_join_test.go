package topologies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/conformance"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

func whenANodeIsAdded(t *testing.T, c *redistest.Cluster) {
	all := []*settlers{settle(t, c, world.Fair, "fairlock", 1), settle(t, c, world.Plain, "fairlock:plain", 2)}
	node := c.Join()
	began := time.Now()
	for _, s := range all {
		for _, name := range append(s.names, s.busy()) {
			c.Move(c.Slot("{"+name+"}"), node)
		}
	}
	t.Logf("the slots moved in %v", time.Since(began))
	moved, rdb := time.Now(), node.Client(t)
	for _, s := range all {
		s.areAt(t, rdb)
	}
	took := time.Since(moved)
	t.Logf("all are there %v later", took)
	if took > world.EnterInterval {
		t.Errorf("somebody had to ask: it took %v", took)
	}
	for _, s := range all {
		s.areRenewedAt(t, rdb)
	}
	for _, s := range all {
		s.areShown(t)
		s.goOn(t)
	}
}

// settlers are locks of one kind. Their slots move to a node that joined after their clients were
// made. Some of the locks are held and waited for; one is handed over all the time.
type settlers struct {
	prefix string
	// Channels that a waiting client listens to: its own, and for locks without a line that of
	// releases.
	each    int64
	holder  conformance.Locker
	waiters [2]conformance.Locker
	names   []string
	held    []*fairlock.Lease
	lines   [][]<-chan conformance.Outcome // the waiters of each lock, in the order of arrival

	stop   context.CancelFunc
	churn  sync.WaitGroup
	inside atomic.Int32
	served atomic.Int64
}

// busy is the name of the lock that is handed over all the time.
func (s *settlers) busy() string { return s.prefix + " busy" }

func settle(t *testing.T, c *redistest.Cluster, kind world.Kind, prefix string, each int64) *settlers {
	t.Helper()
	locker := func() conformance.Locker {
		l := kind(c.Client(t), fairlock.WithLease(6*time.Second), fairlock.WithLogger(slog.New(slog.DiscardHandler)))
		t.Cleanup(func() { _ = l.Close() }) // it never fails
		return l
	}
	s := &settlers{prefix: prefix, each: each, holder: locker(), waiters: [2]conformance.Locker{locker(), locker()}}
	for i := range 3 {
		name := fmt.Sprint(prefix, " ", i)
		lease, err := s.holder.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var line []<-chan conformance.Outcome
		for i := range 4 {
			line = append(line, world.Queue(s.waiters[i%2], name))
		}
		s.names, s.held, s.lines = append(s.names, name), append(s.held, lease), append(s.lines, line)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	t.Cleanup(s.stop)
	for i := range 4 {
		s.churn.Go(func() { s.handOver(ctx, t, s.waiters[i%2]) })
	}
	return s
}

// handOver locks and unlocks the busy lock until ctx ends.
func (s *settlers) handOver(ctx context.Context, t *testing.T, l conformance.Locker) {
	for ctx.Err() == nil {
		err := l.Do(ctx, s.busy(), func(ctx context.Context, _ *fairlock.Lease) error {
			defer s.inside.Add(-1)
			if s.inside.Add(1) != 1 {
				return errors.New("two are inside")
			}
			s.served.Add(1)
			pause(ctx, 5*time.Millisecond)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// areAt returns when the node has the records, and both clients listen there for each lock that
// they wait for.
func (s *settlers) areAt(t *testing.T, node *redis.Client) {
	t.Helper()
	for _, name := range s.names {
		world.Until(t, "the node has "+name, func() bool { return s.end(t, node, name) > 0 })
		world.Until(t, "both clients listen there", func() bool { return listeners(t, node, name) == int64(len(s.waiters))*s.each })
	}
}

// areRenewedAt returns when the node has renewed the records.
func (s *settlers) areRenewedAt(t *testing.T, node *redis.Client) {
	t.Helper()
	for _, name := range s.names {
		before := s.end(t, node, name)
		world.Until(t, name+" is renewed there", func() bool { return s.end(t, node, name) > before })
	}
}

// end returns when a lock's record ends at the node.
func (s *settlers) end(t *testing.T, node *redis.Client, name string) time.Duration {
	t.Helper()
	return node.PExpireTime(t.Context(), s.prefix+":lock:{"+name+"}").Val()
}

// listeners counts the subscriptions to channels of a lock.
func listeners(t *testing.T, node *redis.Client, name string) (n int64) {
	t.Helper()
	channels := node.PubSubShardChannels(t.Context(), "*").Val()
	for channel, heard := range node.PubSubShardNumSub(t.Context(), channels...).Val() {
		if strings.Contains(channel, "{"+name+"}") {
			n += heard
		}
	}
	return n
}

// areShown has each Locker find the locks.
func (s *settlers) areShown(t *testing.T) {
	t.Helper()
	for _, l := range append(s.waiters[:], s.holder) {
		listed := make(map[string]int64)
		for state, err := range l.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if state.Holder != nil {
				listed[state.Name] = state.Holder.Token
			}
		}
		for i, name := range s.names {
			state, err := l.Inspect(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			token := s.held[i].Token()
			if state.Holder == nil || state.Holder.Token != token || state.Token != token || listed[name] != token {
				t.Fatalf("%s is held with token %d: %+v, in the list with %d", name, token, state, listed[name])
			}
			if s.prefix == "fairlock" && state.Waiting != len(s.lines[i]) {
				t.Fatalf("%d wait for %s", state.Waiting, name)
			}
		}
	}
}

// goOn has each lock handed over to the last in line. No waiter may have to ask, which would take
// an enter interval.
func (s *settlers) goOn(t *testing.T) {
	t.Helper()
	for i, lease := range s.held {
		began, line := time.Now(), slices.Clone(s.lines[i])
		for len(line) > 0 {
			if err := errors.Join(lease.Err(), lease.Unlock(t.Context())); err != nil {
				t.Fatal(err)
			}
			next := 0
			world.Until(t, "the next has it", func() bool {
				next = slices.IndexFunc(line, func(c <-chan conformance.Outcome) bool { return len(c) > 0 })
				return next >= 0
			})
			got := <-line[next]
			if got.Err != nil || got.Lease.Token() <= lease.Token() {
				t.Fatalf("%+v after %d", got, lease.Token())
			}
			if next > 0 && s.prefix == "fairlock" {
				t.Fatalf("%d were overtaken", next)
			}
			lease, line = got.Lease, slices.Delete(line, next, next+1)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("%s: %d hand-overs in %v", s.names[i], len(s.lines[i]), took)
		if took > world.EnterInterval {
			t.Errorf("%s: somebody had to ask", s.names[i])
		}
	}
	before := s.served.Load()
	world.Until(t, "the busy one is handed over, too", func() bool { return s.served.Load() >= before+10 })
	s.stop()
	s.churn.Wait()
}
