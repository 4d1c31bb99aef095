package interop

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/redisson"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/java"
	"github.com/fairlock/locks/test/redistest"
)

// pair is a JVM whose times are brief, and a thread of it.
func (w *world) pair() (*java.JVM, *java.Thread) {
	w.Helper()
	j := w.jvm(java.Config{Watchdog: brief, FairWait: javaWait})
	a := j.Thread("a")
	return j, a
}

// mine are the options for a line with that JVM.
func mine() []redisson.Option {
	return []redisson.Option{redisson.WithWatchdogTimeout(brief), redisson.WithFairLockWaitTimeout(javaWait)}
}

func TestTheLockOfAKilledGoHolderGoesToJavaWhenItsLeaseEnds(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	for _, kind := range kinds {
		holder := w.process(kind, "x")
		w.says(holder, "has")
		next := a.Lock(kind, "x")
		w.inLine(kind, "x")
		holder.kill()
		w.returned(next)
		w.returned(a.Unlock(kind, "x"))
		w.nothing()
	}
}

func TestTheLockOfAKilledJavaHolderGoesToGoWhenItsLeaseEnds(t *testing.T) {
	w := newWorld(t)
	for _, kind := range kinds {
		j, a := w.pair()
		w.returned(a.Lock(kind, "x"))
		next := w.asks(w.Context(), w.locker(kind, mine()...), "x")
		w.inLine(kind, "x")
		j.Kill()
		w.unlock(w.gets(next))
		w.nothing()
	}
}

func TestAKilledGoHeadCostsJavaNoMoreThanTheWaiterTimeout(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	l := w.locker(java.Fair, mine()...)
	lease := w.has(l, "x", redisson.LeaseFor(time.Minute)) // Java sleeps for so long unless it is told
	head := w.process(java.Fair, "x")
	w.says(head, "waits")
	next := a.Lock(java.Fair, "x")
	w.line("x", 2)
	w.until("Java listens", func() bool { return w.hear("x", 1) == 1 })
	head.kill()
	w.until("the server knows that the head is gone", func() bool { return w.hear("x", 0) == 0 })
	freed := time.Now()
	w.unlock(lease)
	w.returned(next)
	took := time.Since(freed)
	t.Logf("Java had it after %v; the waiter timeout is %v", took, redisson.DefaultWaiterTimeout)
	if took > redisson.DefaultWaiterTimeout+10*time.Second { // on a busy machine
		t.Errorf("Java had it after %v; the waiter timeout is %v", took, redisson.DefaultWaiterTimeout)
	}
	w.returned(a.Unlock(java.Fair, "x"))
	w.nothing()
}

// hear is how many hear what the one at a place in line is told.
func (w *world) hear(name string, place int64) int64 {
	w.Helper()
	owner := w.direct.LIndex(w.Context(), "redisson_lock_queue:{"+name+"}", place).Val()
	channel := "redisson_lock__channel:{" + name + "}:" + owner
	return w.direct.PubSubNumSub(w.Context(), channel).Val()[channel]
}

func TestAKilledJavaHeadIsSweptByGoWhenItsDeadlineHasPassed(t *testing.T) {
	w := newWorld(t)
	j, a := w.pair()
	l := w.locker(java.Fair, mine()...)
	lease := w.has(l, "x")
	_ = a.Lock(java.Fair, "x")
	w.line("x", 1)
	next := w.asks(w.Context(), l, "x")
	w.line("x", 2)
	j.Kill()
	freed, before := time.Now(), redistest.Scripts(w.T, w.direct)
	w.unlock(lease)
	lease = w.gets(next)
	t.Logf("Go had it after %v, with %d scripts", time.Since(freed), redistest.Scripts(w.T, w.direct)-before)
	if n := redistest.Scripts(w.T, w.direct) - before; n > 200 {
		t.Errorf("Go sent %d scripts while it waited", n)
	}
	w.unlock(lease)
	w.nothing()
}

func TestACancelledGoHeadWakesJava(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	l := w.locker(java.Fair, mine()...)
	w.must(w.direct.HSet(w.Context(), "x", "11111111-1111-4111-8111-111111111111:1", 1).Err()) // without an end
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	first := w.asks(ctx, l, "x")
	w.line("x", 1)
	next := a.Lock(java.Fair, "x")
	w.line("x", 2)
	w.must(w.direct.Del(w.Context(), "x").Err()) // nobody is told
	cancel()
	if o := <-first; o.err == nil { // it may have noticed that the lock is free
		w.unlock(o.lease)
	}
	w.returned(next)
	w.returned(a.Unlock(java.Fair, "x"))
	w.nothing()
}

func TestGoAsksAgainWhenItsSubscriptionWasCut(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	for _, kind := range kinds {
		proxy := faultproxy.New(t, w.addr)
		l := w.over(redis.NewClient(&redis.Options{Addr: proxy.Addr()}), kind, mine()...)
		w.returned(a.Lock(kind, "x"))
		next := w.asks(w.Context(), l, "x")
		w.inLine(kind, "x")
		proxy.Freeze(true)
		w.returned(a.Unlock(kind, "x"))
		proxy.CutAll()
		proxy.Freeze(false)
		w.unlock(w.gets(next))
		w.nothing()
	}
}

func TestALostReplyNeitherCountsTwiceNorLosesThePlace(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	for _, kind := range kinds {
		for _, free := range []bool{true, false} {
			proxy := faultproxy.New(t, w.addr)
			l := w.over(redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 300 * time.Millisecond}), kind, mine()...)
			w.unlock(w.has(l, "another")) // the first look at the server
			if !free {
				w.returned(a.Lock(kind, "x"))
			}
			lost := proxy.Add(faultproxy.Rule{
				Match: scripted, Times: 1, Action: faultproxy.SwallowReply(),
			})
			next := w.asks(w.Context(), l, "x")
			lost.WaitExecuted(t, 1, patience)
			if !free {
				w.inLine(kind, "x")
				w.returned(a.Unlock(kind, "x"))
			}
			lease := w.gets(next)
			if n := w.direct.HGet(w.Context(), "x", lease.Owner()).Val(); n != "1" {
				w.Errorf("%s: the count is %q", kind, n)
			}
			then := a.Lock(kind, "x")
			w.inLine(kind, "x")
			lost = proxy.Add(faultproxy.Rule{Match: scripted, Times: 1, Action: faultproxy.SwallowReply()})
			w.unlock(lease)
			lost.WaitExecuted(t, 1, patience)
			w.returned(then)
			w.returned(a.Unlock(kind, "x"))
			w.nothing()
		}
	}
}

// scripted matches the run of a script.
func scripted(args []string) bool { return faultproxy.Command("EVALSHA")(args) }

// A call in Java may throw when the server restarts, and leave its place behind. No key of a line
// ends by itself.
func TestAFlushAndARestartLoseTheHoldAndNotTheWaiters(t *testing.T) {
	w := newWorld(t)
	_, a := w.pair()
	for name, breaks := range map[string]func(){
		"flush": func() { w.must(w.direct.FlushAll(w.Context()).Err()) },
		"restart": func() {
			w.server.Kill()
			w.server.Restart()
		},
	} {
		l := w.locker(java.Fair, mine()...)
		lease := w.has(l, "x")
		waiting := w.asks(w.Context(), w.locker(java.Fair, mine()...), "x")
		w.line("x", 1)
		inJava := a.Lock(java.Fair, "x")
		w.line("x", 2)
		breaks()
		select {
		case <-lease.Done():
		case <-time.After(patience):
			w.Fatalf("%s: the holder does not learn that its hold is gone", name)
		}
		done := make(chan error, 1)
		go func() { // the line is gone: who asks first is first
			err := inJava.Err(w.Context())
			if err == nil {
				err = a.Unlock(java.Fair, "x").Err(w.Context())
			}
			done <- err
		}()
		w.unlock(w.gets(waiting))
		if err := <-done; name == "restart" && err != nil {
			t.Logf("in Java: %.100v", err)
			w.must(w.direct.FlushAll(w.Context()).Err())
		} else {
			w.must(err)
		}
		w.nothing()
	}
}
