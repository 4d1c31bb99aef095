package processes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/workers"
	"github.com/fairlock/locks/test/world"
)

const usualLease = 30 * time.Second

// machine is locked by tests that load the machine. Tests that only wait for leases and look at the
// clock read-lock it. The tests with processes are parallel, so that one runs while another waits.
var machine sync.RWMutex

// stage is a real server and the processes on it.
type stage struct {
	t      *testing.T
	server *redistest.Server
	rdb    *redis.Client // the test's own
}

func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	server := redistest.Start(t, args...)
	return &stage{t, server, server.Client(t)}
}

func (s *stage) worker(name string, lease time.Duration) *workers.Worker {
	s.t.Helper()
	return workers.Start(s.t, name, s.server.Addr(), lease)
}

// inLine returns when n tickets wait for the lock, and the server sees the channels of all their
// clients. A blind client (the mark in the set) is granted the lock unasked and unheard for as long
// as its mark lasts, even if it is dead.
func (s *stage) inLine(name string, n int64) {
	s.t.Helper()
	s.until("so many are in line and heard", func() bool {
		line := s.rdb.LLen(context.Background(), "fairlock:queue:{"+name+"}").Val()
		blind := s.rdb.ZCount(context.Background(), "fairlock:waiters:{"+name+"}", "-inf", "(0").Val()
		return line == n && blind == 0
	})
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	world.UntilWithin(s.t, workers.Patience, what, ok)
}

// leftovers returns the keys of locks that remain after the last process. Tokens and the protocol
// outlive their users on purpose, and are left out.
func (s *stage) leftovers() []string {
	s.t.Helper()
	keys, err := s.rdb.Keys(context.Background(), "fairlock:*").Result()
	s.must(err)
	return slices.DeleteFunc(keys, func(key string) bool {
		return world.OutlivesUsers("fairlock", key) || world.OutlivesUsers("fairlock:plain", key)
	})
}

// silent returns when the server has no subscription left.
func (s *stage) silent() {
	s.t.Helper()
	s.until("no channel has a subscriber", func() bool {
		channels, err := s.rdb.PubSubChannels(context.Background(), "*").Result()
		return err == nil && len(channels) == 0
	})
}

// cleared checks silent, and that only tokens and the marks of retired tickets are left. A ticket
// retires when a request of it has gone unanswered for too long, which happens on a busy machine.
func (s *stage) cleared() {
	s.t.Helper()
	s.silent()
	for _, key := range s.leftovers() {
		tickets, err := s.rdb.ZCount(context.Background(), key, "0", "+inf").Result()
		if ttl := s.rdb.PTTL(context.Background(), key).Val(); err != nil || tickets > 0 || ttl <= 0 || ttl > time.Minute {
			s.t.Errorf("left behind: %s with %d tickets for %v, %v", key, tickets, ttl, err)
		}
	}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// atOnce runs tests that do nothing but wait, all at the same time.
func atOnce(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// bothAtOnce is world.BothKinds for tests that do nothing but wait.
func bothAtOnce(t *testing.T, test func(t *testing.T, kind world.Kind, prefix string)) {
	t.Helper()
	atOnce(t, map[string]func(*testing.T){
		"fair":  func(t *testing.T) { test(t, world.Fair, "fairlock") },
		"plain": func(t *testing.T) { test(t, world.Plain, "fairlock:plain") },
	})
}

// within plays a scene three times, or up to ten until one keeps the bound. It holds the fastest to
// it. The bounds are about the protocol. On a busy machine with two cores, the scheduler alone may
// delay a process for longer. What the protocol can do wrong (a claim given to a dead process, a
// wait for a heartbeat) costs seconds, and no run may take that long.
func within(t *testing.T, bound time.Duration, scene func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for len(took) < 3 || len(took) < 10 && slices.Min(took) > bound {
		took = append(took, scene())
	}
	t.Logf("took %v, promised are %v", took, bound)
	if fastest := slices.Min(took); fastest > bound {
		t.Errorf("the fastest of %v is longer than %v", took, bound)
	}
	if slowest := slices.Max(took); slowest >= bound+world.Claim {
		t.Errorf("the slowest of %v is not the scheduler's doing", took)
	}
}
