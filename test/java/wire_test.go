package java

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// names are names of locks that could go wrong.
var names = []string{"x", "a{b}c", "ключ:1", "a b%20+c&=", "{", "line\nfeed"}

func fairNames(s *stage) {
	a, holder := s.thread("a")
	b, waiter := s.thread("b")
	next := s.overhear()
	for _, name := range names {
		returns(s.T, a.Lock(Fair, name))
		waits := b.Lock(Fair, name)
		s.inLine(name, waiter)
		if hash := s.rdb.HGetAll(s.Context(), name).Val(); !maps.Equal(hash, map[string]string{holder: "1"}) {
			s.Errorf("%q: the hash has %q", name, hash)
		}
		if n := s.rdb.ZCard(s.Context(), deadlined(name)).Val(); n != 1 {
			s.Errorf("%q: %d deadlines", name, n)
		}
		returns(s.T, a.Unlock(Fair, name), waits, b.Unlock(Fair, name))
		if got := next(); got != channel(name)+":"+waiter+" 0" {
			s.Errorf("%q: published %q", name, got)
		}
	}
}

func plainNames(s *stage) {
	a, holder := s.thread("a")
	b, _ := s.thread("b")
	next := s.overhear()
	for _, name := range names {
		returns(s.T, a.Lock(Plain, name))
		waits := b.Lock(Plain, name)
		until(s.T, "it listens", func() bool { return s.listeners(channel(name)) == 1 })
		if hash := s.rdb.HGetAll(s.Context(), name).Val(); !maps.Equal(hash, map[string]string{holder: "1"}) {
			s.Errorf("%q: the hash has %q", name, hash)
		}
		returns(s.T, a.Unlock(Plain, name), waits, b.Unlock(Plain, name))
		for range 2 { // each unlock tells, whether or not anybody waits
			if got := next(); got != channel(name)+" 0" {
				s.Errorf("%q: published %q", name, got)
			}
		}
	}
}

func counts(s *stage) {
	for _, kind := range []Kind{Fair, Plain} {
		a, owner := s.thread("a")
		b, _ := s.thread("b")
		returns(s.T, a.LockLease(kind, s.x, time.Hour), a.LockLease(kind, s.x, time.Hour))
		is(s.T, 2, a.Count(kind, s.x).Int)
		is(s.T, 0, b.Count(kind, s.x).Int)
		is(s.T, false, b.Holds(kind, s.x).Bool)
		must(s.T, s.rdb.PExpire(s.Context(), s.x, time.Minute).Err())
		returns(s.T, a.Unlock(kind, s.x))
		if n := s.rdb.HGet(s.Context(), s.x, owner).Val(); n != "1" {
			s.Errorf("%s: the count is %s", kind, n)
		}
		// Each getLock makes a new object in Java, and the lease is remembered by the object: this
		// unlock knows the watchdog's only.
		if ttl := s.rdb.PTTL(s.Context(), s.x).Val(); ttl > 30*time.Second {
			s.Errorf("%s: %v are left of a lease of 30 s", kind, ttl)
		}
		is(s.T, true, b.IsLocked(kind, s.x).Bool)
		returns(s.T, a.Unlock(kind, s.x))
		is(s.T, -2, b.TTL(kind, s.x).Int)
	}
}

func strangers(s *stage) {
	a, _ := s.thread("a")
	b, _ := s.thread("b")
	returns(s.T, b.Unlock(Fair, s.x))
	throws(s.T, "IllegalMonitorStateException", b.Unlock(Plain, s.x))
	for _, kind := range []Kind{Fair, Plain} {
		returns(s.T, a.Lock(kind, s.x))
		throws(s.T, "IllegalMonitorStateException", b.Unlock(kind, s.x))
		returns(s.T, a.Unlock(kind, s.x))
	}
}

func forced(s *stage) {
	a, _ := s.thread("a")
	b, waiter := s.thread("b")
	next := s.overhear()
	returns(s.T, a.Lock(Fair, s.x))
	waits := b.Lock(Fair, s.x)
	s.inLine(s.x, waiter)
	is(s.T, true, b.j.Thread("c").ForceUnlock(Fair, s.x).Bool)
	if got := next(); got != channel(s.x)+":"+waiter+" 0" {
		s.Errorf("published %q", got)
	}
	returns(s.T, waits)
	throws(s.T, "IllegalMonitorStateException", a.Unlock(Fair, s.x))
	returns(s.T, b.Unlock(Fair, s.x))
	is(s.T, false, b.ForceUnlock(Fair, s.x).Bool)
}

func TestANameMapperIsAppliedBeforeTheNamesOfAllKeysAndTheWatchdogRenewsThem(t *testing.T) {
	for _, version := range []string{V3, V4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := &stage{T: t, rdb: server.Client(t), j: Start(t, Config{
				Version: version, Addrs: []string{server.Addr()}, Prefix: "app:{t}:",
				Watchdog: 6 * time.Second,
			})}
			a, holder := s.thread("a")
			b, waiter := s.thread("b")
			returns(t, a.Lock(Fair, "x"))
			waits := b.Lock(Fair, "x")
			s.inLine("app:{t}:x", waiter)
			if n := s.rdb.HGet(t.Context(), "app:{t}:x", holder).Val(); n != "1" {
				t.Errorf("the count is %q", n)
			}
			renewed(t, s.rdb, "app:{t}:x")
			returns(t, a.Unlock(Fair, "x"), waits, b.Unlock(Fair, "x"))
			s.nothingStays()
		})
	}
}

// renewed returns when the key has more time to live than a moment before.
func renewed(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	last := time.Hour
	until(t, key+" is renewed", func() bool {
		before := last
		last = rdb.PTTL(t.Context(), key).Val()
		return last > before
	})
}

func TestTwoVersionsHammerOneFairLockAndNeverOverlap(t *testing.T) {
	server := redistest.Start(t)
	began := time.Now().Truncate(time.Millisecond)
	var all []*Call
	for _, version := range []string{V3, V4} {
		j := Start(t, Config{Version: version, Addrs: []string{server.Addr()}})
		all = append(all, j.Thread("hammer").Hammer(Hammer{
			Kind: Fair, Name: "x", Threads: 4, Rounds: 50, Hold: time.Millisecond,
			Counter: "inside", Tells: true,
		}))
	}
	var grants []Grant
	for _, call := range all {
		is(t, Hammered{Granted: 50}, call.Hammered)
		grants = append(grants, call.Grants()...)
	}
	if len(grants) != 100 {
		t.Errorf("%d grants", len(grants))
	}
	for i, g := range grants {
		for _, other := range grants[:i] {
			if g.Granted < other.Freed && other.Granted < g.Freed {
				t.Errorf("%v and %v overlap", g, other)
			}
		}
		if g.Asked > g.Granted || g.Granted > g.Freed || g.Wall.Before(began) || g.Wall.After(time.Now()) {
			t.Errorf("no grant: %+v", g)
		}
	}
}

func TestAHammerGoesOnForItsTimeOrUntilItIsHalted(t *testing.T) {
	server := redistest.Start(t)
	j, rdb := Start(t, Config{Addrs: []string{server.Addr()}}), server.Client(t)
	forever := j.Thread("a").Hammer(Hammer{Kind: Plain, Name: "x", Threads: 2, For: time.Hour, Tells: true})
	until(t, "it has had ten turns", func() bool { return len(forever.Grants()) > 10 })
	returns(t, j.Thread("a").Halt(), forever)
	short := j.Thread("a").Hammer(Hammer{Kind: Fair, Name: "x", Threads: 2, For: 2 * time.Second}) // the first lock of a JVM takes its time
	returns(t, short)
	if n := rdb.Exists(t.Context(), "x").Val(); n != 0 {
		t.Error("a hammer kept the lock")
	}
	if h, err := short.Hammered(t.Context()); err != nil || h.Granted == 0 || h.Failures != 0 {
		t.Error(fmt.Sprint(h), err)
	}
}
