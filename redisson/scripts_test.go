package redisson

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
)

// unrefreshed has a waiter know for 20 s only what its own requests were told.
var unrefreshed = WithWaiterTimeout(time.Minute)

func TestARefusalNamesTheHolderAlsoAfterAWait(t *testing.T) {
	onBothAtOnce(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			lease, l := w.has(locker(unrefreshed), "x"), locker(unrefreshed)
			w.unlock(w.has(l, "y")) // the first contact takes its time
			_, err := l.Lock(w.Context(), "x", WaitAtMost(2500*time.Millisecond))
			w.is(err, ErrHeld)
			if !strings.Contains(err.Error(), lease.Owner()) {
				w.Errorf("%v, and %s has it", err, lease.Owner())
			}
			w.unlock(lease)
			w.nothing()
		})
	})
}

func TestRepliesThatMakeNoSenseAreErrors(t *testing.T) {
	for _, reply := range [][]any{
		nil,
		{},
		{int64(1)},
		{"granted"},
		{"granted", "x"},
		{"waits", int64(1), int64(1)},
		{"held", int64(1), "x", "y"},
		{"gone", int64(1)},
		{"other", int64(1), int64(1), ""},
	} {
		if a, err := decodeAnswer(reply); err == nil {
			t.Errorf("%v is %+v", reply, a)
		}
	}
	for _, reply := range [][]any{
		nil,
		{int64(-2), "x", "", []any{}, "", int64(0)},
		{int64(1), int64(1), "", "x", "", int64(0)},
		{int64(-2), int64(-1), "", []any{}, "", int64(0)},
		{int64(1), int64(1), "", []any{}, int64(0), int64(0)},
		{int64(1), int64(1), "", []any{}, "", ""},
		{int64(1), int64(1), "", []any{}},
	} {
		if v, err := decodeView(reply); err == nil {
			t.Errorf("%v is %+v", reply, v)
		}
	}
	for _, reply := range [][]any{nil, {int64(1), "", "0", int64(0), int64(1), []any{"odd"}}, {"1", "", "0", int64(0), int64(1), []any{}}} {
		if _, err := show(new(State), reply); err == nil {
			t.Errorf("%v is shown", reply)
		}
	}
}

func TestWhoGivesUpAfterAWaitIsToldOfThePresentHolder(t *testing.T) {
	onBoth(t, func(w *world) {
		waits := WithWaiterTimeout(3 * time.Second) // a look each second
		lease := w.has(w.fair(), "x")
		next := w.queues(w.Context(), w.fair(waits), "x", 1)
		late := w.queues(w.Context(), w.fair(waits), "x", 2, WaitAtMost(6*time.Second))
		w.unlock(lease)
		lease = w.gets(next)
		var why *HeldError
		if err := w.ends(late).err; !errors.As(err, &why) || why.Owner != lease.Owner() || why.Remaining < 20*time.Second || why.Waiting != 1 {
			w.Errorf("%v, and %s has it", err, lease.Owner())
		}
		w.unlock(lease)
		w.nothing()
	})
}

func TestARefusalNamesTheHolderAlsoIfTheFirstReplyWasLost(t *testing.T) {
	onBothAtOnce(t, func(w *world) {
		lease := w.has(w.fair(unrefreshed), "x")
		proxy := faultproxy.New(w, w.addr)
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		l := New(rdb, unrefreshed)
		w.unlock(w.has(l, "y")) // the server has the scripts now
		lost := proxy.Add(faultproxy.Rule{Match: faultproxy.Command("EVALSHA"), Times: 1, Action: faultproxy.SwallowReply()})
		_, err := l.Lock(w.Context(), "x", WaitAtMost(3*time.Second))
		var why *HeldError
		if !errors.As(err, &why) || why.Owner != lease.Owner() || why.Waiting != 1 || lost.Hits() != 1 {
			w.Errorf("%v, and %s has it", err, lease.Owner())
		}
		w.must(l.Close())
		w.must(rdb.Close())
		w.unlock(lease)
		w.nothing()
	})
}

func TestARefusalSaysHowManyWait(t *testing.T) {
	onBothAtOnce(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			a, b := locker(unrefreshed), locker(unrefreshed)
			lease := w.has(a, "x")
			queued := make(chan struct{})
			next := w.asks(w.Context(), b, "x", OnQueued(func(int) { close(queued) }))
			<-queued
			for wait, want := range map[time.Duration]int{0: 1, 2500 * time.Millisecond: 2} { // it counts itself
				_, err := b.Lock(w.Context(), "x", WaitAtMost(wait))
				var why *HeldError
				if !errors.As(err, &why) || why.Waiting != want {
					w.Errorf("%v; want %d waiting", err, want)
				}
				w.until("it has left", func() bool { return b.plain || w.inLine("x") == 1 })
			}
			w.unlock(lease)
			w.unlock(w.gets(next))
			w.nothing()
		})
	})
}

func TestALockInItsLastMillisecondIsNotTakenForOneWithoutEnd(t *testing.T) {
	for pttl, want := range map[int64]time.Duration{-2: 0, -1: 0, 0: time.Millisecond, 1: time.Millisecond, 2000: 2 * time.Second} {
		for _, status := range []string{waits, held} {
			if a, err := decodeAnswer([]any{status, pttl, int64(1), ""}); err != nil || a.left != want {
				t.Errorf("%s: a PTTL of %d is %v, %v", status, pttl, a.left, err)
			}
		}
		if v, err := decodeView([]any{pttl, int64(1), "", []any{}, "", int64(0)}); err != nil || v.left != want {
			t.Errorf("a PTTL of %d is %v, %v", pttl, v.left, err)
		}
	}
}

// run runs a script as a Locker does.
func (w *world) run(script lua.Script, keys []string, args ...any) []any {
	w.Helper()
	reply, err := lua.NewServer(w.direct, "", "").Run(w.Context(), script, keys, args...)
	w.must(err)
	return reply
}

// runText is run of a script that replies with a text.
func (w *world) runText(script lua.Script, keys []string, args ...any) string {
	w.Helper()
	reply, err := lua.NewServer(w.direct, "", "").RunText(w.Context(), script, keys, args...)
	w.must(err)
	return reply
}

// keysOf are the keys of a fair lock, with the mark of an owner.
func keysOf(name, owner string) []string {
	return []string{name, prefixed(queues, name), prefixed(deadlines, name), prefixed(marks, name) + ":" + owner}
}

func TestAnAcquireThatIsExecutedLateShortensNoLease(t *testing.T) {
	onBoth(t, func(w *world) {
		w.kinds(func(w *world, locker func(...Option) *Locker) {
			l, owner := locker(), "00000000-0000-8000-8000-000000000000:1"
			keys := keysOf("x", owner)
			enter := func(lease int) {
				if l.plain {
					w.run(plainEnterScript, []string{keys[0], keys[3]}, owner, lease)
				} else {
					w.run(enterScript, keys, owner, lease, 3000, 0, "PUBLISH", prefixed(channels, "x"), "1", 300000)
				}
			}
			enter(10_000)
			w.must(w.direct.PExpire(w.Context(), "x", time.Hour).Err())
			enter(10_000)
			if left := w.direct.PTTL(w.Context(), "x").Val(); left < 30*time.Minute {
				w.Errorf("a lease of an hour ends in %v", left)
			}
			enter(7_200_000)
			if left := w.direct.PTTL(w.Context(), "x").Val(); left < 90*time.Minute {
				w.Errorf("a lease of two hours ends in %v", left)
			}
		})
	})
}
