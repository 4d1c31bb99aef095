package redisson

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// fill makes the server refuse every write that needs memory.
func (w *world) fill() {
	w.Helper()
	w.must(w.direct.ConfigSet(w.Context(), "maxmemory", "1").Err())
}

func (w *world) empty() {
	w.Helper()
	w.must(w.direct.ConfigSet(context.Background(), "maxmemory", "0").Err())
}

// deadline is until when an owner stays in line, in ms since 1970.
func (w *world) deadline(owner string) float64 {
	return w.direct.ZScore(w.Context(), prefixed(deadlines, "x"), owner).Val()
}

func TestAFullServerRefusesNewLocksAndNothingElse(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.kinds(func(w *world, locker func(...Option) *Locker) {
		a, b, newcomer := locker(WithWatchdogTimeout(6*time.Second)), locker(), locker()
		lease := w.has(a, "x")
		var line []<-chan outcome
		waiters := 3
		if a.plain { // they have no order
			waiters = 1
		}
		for range waiters {
			queued := make(chan struct{})
			line = append(line, w.asks(w.Context(), b, "x", OnQueued(func(int) { close(queued) })))
			<-queued
		}
		w.unlock(w.has(newcomer, "z")) // the first contact
		w.fill()
		defer w.empty()
		_, err := newcomer.TryLock(w.Context(), "z")
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			w.Errorf("a new lock: %v", err)
		}
		for _, owner := range w.direct.LRange(w.Context(), prefixed(queues, "x"), 0, -1).Val() {
			before := w.deadline(owner)
			w.until("its place is kept", func() bool { return w.deadline(owner) > before })
		}
		ends := w.direct.PExpireTime(w.Context(), "x").Val()
		w.until("it is renewed", func() bool { return w.direct.PExpireTime(w.Context(), "x").Val() > ends })
		w.unlock(lease)
		if a.plain { // a waiter has nothing on the server: it asks for a new lock
			w.empty()
		}
		for _, next := range line {
			w.unlock(w.gets(next))
		}
		w.nothing()
	})
}

func TestOnAFullServerTheDepthOfAHoldThatWasExtendedIsShown(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	w.must(w.direct.HSet(w.Context(), "x", "an owner", 1).Err())
	w.must(w.direct.PExpire(w.Context(), "x", time.Hour).Err())
	w.fill()
	defer w.empty()
	reply := w.run(renewScript, []string{"x"}, "an owner", 30_000, 0, 2)
	if shown := w.direct.HGet(w.Context(), "x", "an owner").Val(); reply[0].(int64) < 59*60_000 || shown != "2" {
		t.Errorf("%v ms; the depth is %s", reply, shown)
	}
}

func TestOnAFullServerAnOwnerLeavesForCertain(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Addr(), true)
	const late, ours, owner, head = 60_000, 3000, "00000000-0000-8000-8000-000000000000:1", "00000000-0000-8000-8000-000000000000:2"
	keys := keysOf("x", owner)
	plain := []string{keys[0], keys[3]}
	now := float64(time.Now().UnixMilli())
	stands := func(owner string, after float64) {
		w.must(w.direct.RPush(w.Context(), keys[1], owner).Err())
		w.must(w.direct.ZAdd(w.Context(), keys[2], redis.Z{Score: now + after, Member: owner}).Err())
	}
	holds := func() { w.must(w.direct.HSet(w.Context(), "x", owner, 1).Err()) }
	for _, c := range []struct {
		what  string
		has   func()
		late  int
		plain bool
		was   string
	}{
		{"a holder with a late request", holds, late, false, "held"},
		{"a holder of a plain lock with a late request", holds, late, true, "held"},
		{"nobody with a late request", func() {}, late, true, "neither"},
		{"a waiter before others", func() { stands(owner, 30_000); stands(head, 60_000) }, 0, false, "waited"},
		{"nobody, before a head that died", func() { stands(head, 60_000) }, 0, false, "neither"},
	} {
		w.Run(c.what, func(t *testing.T) {
			one := &world{T: t, addr: w.addr, direct: w.direct, real: true}
			one.must(one.direct.FlushAll(t.Context()).Err())
			c.has()
			one.fill()
			defer one.empty()
			var was string
			if c.plain {
				was = one.runText(plainLeaveScript, plain, owner, c.late, "PUBLISH", prefixed(channels, "x"))
			} else {
				was = one.runText(leaveScript, keys, owner, ours, c.late, "PUBLISH", prefixed(channels, "x"))
			}
			if marked := one.direct.Exists(t.Context(), keys[3]).Val() == 1; was != c.was || marked != (c.late > 0) {
				t.Errorf("it was %q; marked: %v", was, marked)
			}
			if one.direct.Exists(t.Context(), "x").Val() == 1 {
				t.Error("the lock stays")
			}
			if at := one.deadline(head); at > now+ours+30_000 {
				t.Errorf("the next stays for %v ms", at-now)
			}
		})
	}
}
