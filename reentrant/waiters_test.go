package reentrant

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/pipes"
)

// inBubble runs the test in fake time, with a server and a function that makes Lockers on it.
func inBubble(t *testing.T, test func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker)) {
	t.Helper()
	bubbles.Test(t, func(t *testing.T) {
		mini := pipes.New(t)
		test(t, mini.Miniredis, func(options ...Option) *Locker {
			rdb := redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:0", Dialer: mini.Dial, // nobody looks the address up
			})
			l := New(rdb, append([]Option{WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
			t.Cleanup(func() {
				_ = l.Close()
				_ = rdb.Close()
			})
			return l
		})
	})
}

func holding(t *testing.T, l *Locker, name string, options ...LockOption) *Lease {
	t.Helper()
	lease, err := l.Lock(t.Context(), name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func released(t *testing.T, lease *Lease) {
	t.Helper()
	if err := lease.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
}

type result struct {
	lease *Lease
	err   error
}

// waits makes a call wait, and returns when it stands in line.
func waits(t *testing.T, l *Locker, name string, options ...LockOption) <-chan result {
	t.Helper()
	queued, done := make(chan struct{}), make(chan result, 1)
	go func() {
		lease, err := l.Lock(context.Background(), name, append(options, OnQueued(func(int) { close(queued) }))...)
		done <- result{lease, err}
	}()
	<-queued
	synctest.Wait()
	return done
}

// waitersOf are the waiters of a lock.
func (l *Locker) waitersOf(name string) *waiters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiters["fairlock:plain:lock:{"+name+"}"]
}

// stuck puts a call in line that does nothing.
func (l *Locker) stuck(t *testing.T, name string) *call {
	t.Helper()
	c := l.newcomer(t, name)
	w, err := l.join(c, &HeldError{})
	if err != nil {
		t.Fatal(err)
	}
	l.stand(w, c)
	return c
}

func (l *Locker) newcomer(t *testing.T, name string) *call {
	t.Helper()
	keys, err := lua.NewKeys(l.core.Settings.Prefix, name)
	if err != nil {
		t.Fatal(err)
	}
	return l.begin(engine.Call{
		Name: name, Keys: keys, Request: engine.Request{Lease: engine.DefaultLease, Wait: -1}, Began: time.Now(),
	})
}

func TestNoLaterCallOfAProcessOvertakesOneThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "x")) // makes contact
		old := l.stuck(t, "x")
		synctest.Wait()
		before := mini.CommandCount()
		_, err := l.TryLock(t.Context(), "x")
		if held := new(HeldError); !errors.As(err, &held) || held.Waiting != 1 {
			t.Fatalf("TryLock: %v", err)
		}
		if _, err := l.Lock(t.Context(), "x", WaitAtMost(500*time.Millisecond)); !errors.Is(err, ErrHeld) {
			t.Fatalf("Lock: %v", err)
		}
		if sent := mini.CommandCount() - before; sent != 0 {
			t.Errorf("they sent %d commands", sent)
		}
		later := waits(t, l, "x")
		if len(later) > 0 {
			t.Fatal("overtaken")
		}
		l.quit(l.waitersOf("x"), old, nil)
		released(t, (<-later).lease)
	})
}

func TestThoseWhoWaitInOneProcessAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, l, "x")
		var all []<-chan result
		for range 5 {
			all = append(all, waits(t, l, "x"))
		}
		for i, next := range all {
			released(t, lease)
			got := <-next
			if got.err != nil {
				t.Fatal(got.err)
			}
			for _, other := range all[i+1:] {
				if len(other) > 0 {
					t.Fatalf("overtook number %d", i)
				}
			}
			lease = got.lease
		}
		released(t, lease)
	})
}

func TestTheNextOfAProcessHasTheLockWhenTheLeaseOfTheOneBeforeItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		first := waits(t, l, "x", LeaseFor(300*time.Millisecond))
		next := waits(t, l, "x")
		synctest.Wait()
		released(t, lease)
		lost := <-first
		began := time.Now()
		got := <-next
		if took := time.Since(began); got.err != nil || took > 310*time.Millisecond {
			t.Errorf("%v after %v", got.err, took)
		}
		if err := lost.lease.Unlock(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("the first one says %v", err)
		}
		released(t, got.lease)
	})
}

func TestNobodyWaitsForACallThatIsInItsCallback(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, l, "x")
		inside, returns := make(chan struct{}), make(chan struct{})
		slow := make(chan result, 1)
		go func() {
			lease, err := l.Lock(context.Background(), "x", OnQueued(func(int) {
				close(inside)
				<-returns
			}))
			slow <- result{lease, err}
		}()
		<-inside
		next := waits(t, l, "x")
		began := time.Now()
		released(t, lease)
		released(t, (<-next).lease)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		close(returns)
		released(t, (<-slow).lease)
	})
}

func TestATurnThatIsNotTakenPassesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		first := l.stuck(t, "x")
		next := waits(t, l, "x")
		synctest.Wait() // the first has had its turn, by the subscription, and does nothing with it
		if len(first.may) != 1 {
			t.Fatal("the first has no turn")
		}
		released(t, lease)
		synctest.Wait()
		if len(next) > 0 {
			t.Fatal("two had the turn")
		}
		began := time.Now()
		l.quit(l.waitersOf("x"), first, nil)
		released(t, (<-next).lease)
		if took := time.Since(began); took > pauseAfterRefusal {
			t.Errorf("it took %v", took)
		}
	})
}

func TestNoWaiterTriesTwiceWithinItsPause(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		next := waits(t, l, "x")
		time.Sleep(2 * pauseAfterRefusal)
		before := l.core.Ticket(&engine.Request{}).Counter
		began := time.Now()
		for range 100 { // a storm of releases
			mini.Publish("fairlock:plain:freed:{x}", "somebody")
			synctest.Wait()
		}
		for time.Since(began) < 10*pauseAfterRefusal {
			mini.Publish("fairlock:plain:freed:{x}", "somebody")
			time.Sleep(pauseAfterRefusal / 5)
		}
		if tries := l.core.Ticket(&engine.Request{}).Counter - before - 1; tries < 2 || tries > 13 {
			t.Errorf("%d tries in %v", tries, time.Since(began))
		}
		released(t, lease)
		released(t, (<-next).lease)
	})
}

func TestAWaiterJoinsAHolderOfItsOwnNameAsSoonAsAnyoneHereLearnsOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		first, kin := waits(t, l, "x"), waits(t, l, "x", WithOwner("saga-7"))
		mini.Del("fairlock:plain:lock:{x}") // nobody is told of this
		theirs := holding(t, other, "x", WithOwner("saga-7"))
		got := <-kin
		if got.err != nil || got.lease.Token() != theirs.Token() || len(first) > 0 {
			t.Fatalf("%+v", got)
		}
		released(t, theirs)
		released(t, got.lease)
		released(t, (<-first).lease)
		_ = lease.Unlock(context.Background()) // lost
	})
}

func TestACallThatNamesAnOwnerWhomNobodyNamedWaitsLikeAnyOther(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		next := waits(t, l, "x", WithOwner(lease.Owner())) // it cannot join: the holder has no name
		time.Sleep(time.Second)
		before := l.core.Ticket(&engine.Request{}).Counter
		time.Sleep(10 * time.Second)
		if tries := l.core.Ticket(&engine.Request{}).Counter - before - 1; tries > 10 {
			t.Errorf("%d tries in 10 s", tries)
		}
		released(t, lease)
		released(t, (<-next).lease)
	})
}

func TestWhenOneWaiterOfAnOwnerHasTheLockTheOthersOfItsProcessJoinItAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		saga := WithOwner("saga-7")
		lease := holding(t, other, "x")
		first, stranger, kin := waits(t, l, "x", saga), waits(t, l, "x"), waits(t, l, "x", saga)
		inside, returns, slow := make(chan struct{}), make(chan struct{}), make(chan result, 1)
		go func() { // asks now, and stands in line once the others have the lock
			lease, err := l.Lock(context.Background(), "x", saga, OnQueued(func(int) {
				close(inside)
				<-returns
			}))
			slow <- result{lease, err}
		}()
		<-inside
		began := time.Now()
		released(t, lease)
		got := []result{<-first, <-kin}
		close(returns)
		got = append(got, <-slow)
		if took := time.Since(began); took > time.Second || len(stranger) > 0 {
			t.Errorf("it took %v", took)
		}
		for _, r := range got {
			if r.err != nil || r.lease.Token() != got[0].lease.Token() {
				t.Fatalf("%+v", r)
			}
		}
		for _, r := range got {
			released(t, r.lease)
		}
		released(t, (<-stranger).lease)
	})
}

func TestASubscriptionGoesSomeTimeAfterItsLastWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		subscribed := func() int { return mini.PubSubNumSub("fairlock:plain:freed:{x}")["fairlock:plain:freed:{x}"] }
		for range 2 {
			lease := holding(t, other, "x")
			next := waits(t, l, "x")
			released(t, lease)
			released(t, (<-next).lease)
			synctest.Wait()
			if subscribed() != 1 {
				t.Fatal("the subscription is made again for every waiter")
			}
		}
		time.Sleep(3 * waitersStays)
		synctest.Wait()
		if subscribed() != 0 || l.waitersOf("x") != nil {
			t.Fatal("it stays for ever")
		}
	})
}

func TestACallThatMeetsCloseSendsNothingOnceItHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		released(t, holding(t, l, "x")) // makes contact
		synctest.Wait()
		c := l.newcomer(t, "x")
		if held, err := l.refuse(c); held != nil || err != nil {
			t.Fatal(held, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		before := mini.CommandCount()
		if o := l.try(t.Context(), c); !errors.Is(o.err, ErrClosed) {
			t.Errorf("%+v", o)
		}
		synctest.Wait()
		if sent := mini.CommandCount() - before; sent != 0 {
			t.Errorf("it sent %d commands", sent)
		}
	})
}

// As a try that frees the lock does, and does not get it.
func TestAnAnswerThatNobodyHasTheLockLetsTheFirstInLineTry(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		first, hears := l.stuck(t, "x"), l.stuck(t, "x")
		w := l.waitersOf("x")
		l.refused(w, &HeldError{Owner: "other", Remaining: 30 * time.Second})
		time.Sleep(10 * time.Millisecond)
		<-first.may // the subscription is there, and what stuck was told is over
		time.Sleep(time.Second)
		if len(first.may) != 0 {
			t.Fatal("it may try while the lock is held")
		}
		l.refused(w, &HeldError{})
		time.Sleep(10 * time.Millisecond)
		if len(first.may) != 1 || len(hears.may) != 0 {
			t.Errorf("first in line: %d, behind: %d", len(first.may), len(hears.may))
		}
		l.quit(w, first, nil)
		l.quit(w, hears, nil)
	})
}

// Between a newcomer's try and its joining, the lock may have been released. No call of the process
// was there to hear of the release.
func TestAReleaseBetweenATryAndItsWaitingIsNotMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		lease := holding(t, other, "x")
		next := waits(t, l, "x") // so that there are waiters with a subscription
		released(t, lease)
		released(t, (<-next).lease)
		synctest.Wait()

		lease = holding(t, other, "x")
		late := l.newcomer(t, "x")
		late.asked = time.Now()
		if o := l.first(t.Context(), late); o.held == nil {
			t.Fatalf("%+v", o)
		}
		time.Sleep(time.Millisecond)
		released(t, lease)
		synctest.Wait()
		w, err := l.join(late, &HeldError{Remaining: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l.stand(w, late)
		select {
		case <-late.may:
		default:
			t.Error("it may not try")
		}
		l.quit(w, late, nil)
	})
}
