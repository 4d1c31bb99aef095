package lua

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/pipes"
)

var ctx = context.Background()

// site is a server with one lock on it.
type site struct {
	t       *testing.T
	rdb     redis.UniversalClient // may do everything
	scripts redis.UniversalClient // runs the scripts: a real server allows them only the keys that they declare
	keys    Keys

	mini  *pipes.Server // nil on a real server
	clock time.Time     // of mini; moves only with pass

	untidy bool // the test breaks what check looks at
}

// each runs the test on the embedded server, on a real server and on a cluster. The clock of the
// embedded server stands still unless the test moves it.
func each(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, onMiniredis(t)) })
	t.Run("real", func(t *testing.T) { test(t, onRedis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, onCluster(t)) })
}

// twice is each without the cluster, for slow tests.
func twice(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, onMiniredis(t)) })
	t.Run("real", func(t *testing.T) { test(t, onRedis(t)) })
}

func onMiniredis(t *testing.T) *site {
	s := &site{t: t, keys: keysOf(t, "x"), mini: pipes.New(t), clock: time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.UTC)}
	s.mini.SetTime(s.clock)
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: s.mini.Dial}) // an address that nobody looks up
	t.Cleanup(func() { _ = c.Close() })                                               // nothing depends on how a connection ends
	s.rdb, s.scripts = c, c
	return s
}

func onRedis(t *testing.T) *site {
	server := single(t)
	admin := server.Client(t)
	must(t, admin.FlushAll(ctx).Err())
	must(t, declared{admin}.allow(ctx, nil))
	scripts := server.Client(t, func(o *redis.Options) { o.Username, o.Password = scriptUser, anyPassword })
	scripts.AddHook(declared{admin})
	return &site{t: t, keys: keysOf(t, "x"), rdb: admin, scripts: scripts}
}

func onCluster(t *testing.T) *site {
	server := cluster(t)
	admin := clusterClient(t, server)
	must(t, admin.FlushAll(ctx).Err())
	must(t, declared{admin}.allow(ctx, nil))
	scripts := clusterClient(t, server, func(o *redis.ClusterOptions) { o.Username, o.Password = scriptUser, anyPassword })
	scripts.OnNewNode(func(node *redis.Client) { node.AddHook(declared{admin}) })
	return &site{t: t, keys: keysOf(t, "x"), rdb: admin, scripts: scripts}
}

func keysOf(t testing.TB, name string) Keys {
	t.Helper()
	keys, err := NewKeys("fairlock", name)
	must(t, err)
	return keys
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// now returns the time of the server.
func (s *site) now() Micros {
	s.t.Helper()
	at, err := s.rdb.Time(ctx).Result()
	must(s.t, err)
	return Micros(at.UnixMicro())
}

// allCameBack makes the server believe that the time for coming back after a loss is over.
func (s *site) allCameBack() {
	s.t.Helper()
	equal(s.t, "marked as a time to come back", s.rdb.ZRem(ctx, s.keys.Waiters(), "?").Val(), 1)
}

// pass waits until the server's clock has moved by d and two milliseconds more: some things end
// only with the next millisecond.
func (s *site) pass(d time.Duration) {
	s.t.Helper()
	d += 2 * time.Millisecond
	if s.mini != nil {
		s.clock = s.clock.Add(d)
		s.mini.SetTime(s.clock)
		return
	}
	for end := s.now() + Micros(d.Microseconds()); s.now() < end; {
		time.Sleep(time.Millisecond)
	}
}

// field returns one field of the record, or "" if the record does not have it.
func (s *site) field(name string) string { return s.rdb.HGet(ctx, s.keys.Record(), name).Val() }

// line returns the tickets in line, the next one first.
func (s *site) line() []string {
	s.t.Helper()
	elements, err := s.rdb.LRange(ctx, s.keys.Queue(), 0, -1).Result()
	must(s.t, err)
	for i, element := range elements {
		_, elements[i], _ = strings.Cut(element, ":")
	}
	return elements
}

func (s *site) lined(want ...string) {
	s.t.Helper()
	if got := s.line(); !slices.Equal(got, want) {
		s.t.Fatalf("in line:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// score returns the score of a member of the set of waiters; ok reports whether it is a member.
func (s *site) score(member string) (at int64, ok bool) {
	at64, err := s.rdb.ZScore(ctx, s.keys.Waiters(), member).Result()
	return int64(at64), err == nil
}

// age makes the members of the set of waiters end now: tickets are overdue, marks are over.
func (s *site) age(members ...string) {
	s.t.Helper()
	for _, member := range members {
		end := float64(s.now()/1000) - 1
		if member[0] == '~' || member[0] == '!' {
			end = -end
		}
		must(s.t, s.rdb.ZAddXX(ctx, s.keys.Waiters(), redis.Z{Score: end, Member: member}).Err())
	}
}

// ends returns when a key expires, in the server's milliseconds; a negative number means never.
func (s *site) ends(key string) int64 {
	s.t.Helper()
	d, err := s.rdb.PExpireTime(ctx, key).Result()
	must(s.t, err)
	if d < 0 {
		return int64(d)
	}
	return d.Milliseconds()
}

// endRecord ends the record as its expiry would.
func (s *site) endRecord() {
	s.t.Helper()
	must(s.t, s.rdb.PExpireAt(ctx, s.keys.Record(), time.Unix(1, 0)).Err())
}

// gone reports whether none of the keys exists.
func (s *site) gone(keys ...string) bool {
	s.t.Helper()
	n, err := s.rdb.Exists(ctx, keys...).Result()
	must(s.t, err)
	return n == 0
}
