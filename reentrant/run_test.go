package reentrant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fairlock/locks/internal/rules"
)

// contended has another Locker give back a lock for which n calls of l wait
// and returns those calls when the first has the lock.
func contended(t *testing.T, l, other *Locker, n int) (first *Lease, rest []<-chan result) {
	t.Helper()
	held := holding(t, other, "x")
	for range n {
		rest = append(rest, waits(t, l, "x"))
	}
	released(t, held)
	return served(t, rest[0]), rest[1:]
}

// served is the Lease of a call that gets one at once.
func served(t *testing.T, call <-chan result) *Lease {
	t.Helper()
	r := <-call
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.lease
}

func TestTurnsOfAPlainLockPassWithinAProcessInOrderWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		lease, rest := contended(t, locker(), locker(), 5)
		record := mini.HGet("fairlock:plain:lock:{x}", "token")
		before := mini.CommandCount()
		for _, next := range rest {
			last := lease
			released(t, last)
			if lease = served(t, next); lease.Token() != last.Token()+1 || lease.Owner() == last.Owner() {
				t.Fatalf("after %d of %s came %d of %s", last.Token(), last.Owner(), lease.Token(), lease.Owner())
			}
			if last.Context().Err() == nil {
				t.Fatal("the turn is over, and its context has not ended")
			}
		}
		if sent := mini.CommandCount() - before; sent != 0 || mini.HGet("fairlock:plain:lock:{x}", "token") != record {
			t.Errorf("%d commands", sent)
		}
		released(t, lease)
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the lock is held")
		}
	})
}

func TestAPlainLockIsReleasedToAllAfterAHundredTurnsOrTenMilliseconds(t *testing.T) {
	for name, c := range map[string]struct {
		each time.Duration
		want int
	}{"short turns": {0, 1 + rules.PlainTurns}, "longer turns": {rules.PlainRunFor / 5, 5}, "a long one": {rules.PlainRunFor, 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
				lease, rest := contended(t, locker(), locker(), 1+rules.PlainTurns+1)
				for turns := 1; ; turns++ {
					before := mini.CommandCount()
					time.Sleep(c.each)
					released(t, lease)
					if mini.CommandCount() != before {
						if turns != c.want {
							t.Errorf("%d turns", turns)
						}
						break
					}
					lease, rest = served(t, rest[0]), rest[1:]
				}
				for _, next := range rest { // none is forgotten
					released(t, served(t, next))
				}
			})
		})
	}
}

func TestTheTokensOfTurnsAreLargerThanEveryTokenBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		last := int64(0)
		for i := range 20 {
			lease, rest := contended(t, l, other, 3)
			for _, next := range append(rest, nil) {
				if lease.Token() <= last {
					t.Fatalf("%d after %d", lease.Token(), last)
				}
				last = lease.Token()
				released(t, lease)
				if next != nil {
					lease = served(t, next)
				}
			}
			if i != 10 {
				continue
			}
			// The clock was set back: no number for a turn is left between this token and the next.
			if err := mini.Set("fairlock:plain:token:{x}", "9000000000000000"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAPlainLockForWhichNobodyWaitedHasTheTokenOfItsRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		lease := holding(t, l, "x")
		state, err := l.Inspect(t.Context(), "x")
		if err != nil || state.Holder.Token != lease.Token() {
			t.Fatalf("%d, and inspection shows %+v, %v", lease.Token(), state.Holder, err)
		}
		released(t, lease)
	})
}

func TestAPlainLockIsReleasedToAllBeforeACallThatCannotHaveATurnIsOvertaken(t *testing.T) {
	for name, option := range map[string]LockOption{
		"a fixed lease": LeaseFor(time.Minute), "an owner": WithOwner("saga"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
				l := locker()
				first, rest := contended(t, l, locker(), 1)
				other := waits(t, l, "x", option)
				later := waits(t, l, "x")
				synctest.Wait()
				released(t, first)
				second := served(t, other)
				synctest.Wait()
				if len(later) > 0 || second.Token() <= first.Token()+rules.PlainTurns {
					t.Fatalf("token %d after %d", second.Token(), first.Token())
				}
				before := mini.CommandCount()
				released(t, second) // nor does it pass its own turn on
				if mini.CommandCount() == before {
					t.Error("its turn was passed on")
				}
				released(t, served(t, later))
				_ = rest
			})
		})
	}
}

func TestBetweenTwoTurnsNobodyAsksTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		first, rest := contended(t, l, locker(), 2)
		before := mini.CommandCount()
		released(t, first)
		if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, ErrHeld) { // the next may not run yet
			t.Fatal(err)
		}
		again := waits(t, l, "x")
		released(t, served(t, rest[0]))
		second := served(t, again)
		if sent := mini.CommandCount() - before; sent != 0 {
			t.Errorf("%d commands", sent)
		}
		released(t, second)
	})
}

func TestATurnOfACallThatEndedMeanwhilePassesToTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		first, _ := contended(t, l, locker(), 1)
		// A call in line whose goroutine is slow to notice that its wait is over.
		slow := l.newcomer(t, "x")
		w, err := l.join(slow, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.stand(w, slow)
		next := waits(t, l, "x")
		before := mini.CommandCount()
		released(t, first)
		l.quit(w, slow, nil)
		second := served(t, next)
		if second.Token() != first.Token()+2 || mini.CommandCount() != before {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		released(t, second)
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the lock is held")
		}
	})
}

func TestAClosedPlainLockerPassesNoTurnOn(t *testing.T) {
	inBubble(t, func(t *testing.T, mini *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		first, rest := contended(t, l, locker(), 2)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		released(t, first)
		if r := <-rest[0]; !errors.Is(r.err, ErrClosed) {
			t.Errorf("the waiting call: %v", r.err)
		}
		if mini.Exists("fairlock:plain:lock:{x}") {
			t.Error("the lock is held")
		}
	})
}

func TestALostPlainLockIsLostForTheTurnThatIsPresent(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l, other := locker(), locker()
		first, rest := contended(t, l, other, 3)
		released(t, first)
		second := served(t, rest[0])
		if err := other.ForceUnlock(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		<-second.Done()
		if err := second.Unlock(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("it is told: %v", err)
		}
		released(t, served(t, rest[1]))
	})
}
