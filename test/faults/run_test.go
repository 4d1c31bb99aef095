package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// running has calls of u wait, one for each list of options, and returns those calls when the first
// has the lock.
func running(f *world.Faulty, u *world.User, options ...[]fairlock.LockOption) (first *fairlock.Lease, rest []*world.Wait) {
	f.Helper()
	other := f.Beside()
	held := other.Locks("x")
	for i, of := range options {
		rest = append(rest, u.Queues("x", i+1, of...))
	}
	f.Unlocks(held)
	return rest[0].Gets(), rest[1:]
}

// passed has two calls of u or more take their turns, and returns when the second has the lock. A
// busy machine may keep the first from ending its turn in time to pass it on. Then all is done
// again.
func passed(f *world.Faulty, u *world.User, n int) (second *fairlock.Lease, rest []*world.Wait) {
	f.Helper()
	for range 100 {
		first, rest := running(f, u, make([][]fairlock.LockOption, n)...)
		f.Unlocks(first)
		second := rest[0].Gets()
		if second.Token() == first.Token()+1 {
			return second, rest[1:]
		}
		f.Unlocks(second)
		f.Served(rest[1:]...)
	}
	f.Fatal("no turn was passed on")
	return nil, nil
}

func TestTurnsPassWithinAProcessInOrderWithoutARequest(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u, leaves := f.Patient(), f.All(f.Verb("leave"), faultproxy.Observe())
		for range 100 {
			lease, rest := running(f, u, make([][]fairlock.LockOption, 5)...)
			before, first := leaves.Hits(), lease.Token()
			for _, w := range rest {
				last := lease
				f.Unlocks(last)
				if lease = w.Gets(); lease.Token() <= last.Token() || lease.Owner() == last.Owner() {
					f.Fatalf("after %d of %s came %d of %s", last.Token(), last.Owner(), lease.Token(), lease.Owner())
				}
				if err := last.Context().Err(); err == nil {
					f.Fatal("the turn is over, and its context has not ended")
				}
			}
			f.Unlocks(lease)
			if lease.Token() != first+4 { // a turn was late
				continue
			}
			if n := leaves.Hits() - before; n != 1 {
				f.Fatalf("%d leaves for five turns", n)
			}
			f.Free("x")
			return
		}
		f.Fatal("no run passed as a whole")
	})
}

func TestALongTurnIsShownAsWhatItIs(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u := f.Beside()
		lease, rest := passed(f, u, 3)
		f.Until("the last of the run waits alone, and the present turn is shown", func() bool {
			state, err := u.Inspect(t.Context(), "x")
			f.Must(err)
			return state.Holder.Owner == lease.Owner() && len(state.Waiters) == 1
		})
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Served(rest...)
		f.Free("x")
	})
}

func TestForceEndsTheTurnThatIsPresent(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u := f.Beside()
		lease, rest := passed(f, u, 3)
		f.Must(f.Beside().ForceUnlock(t.Context(), "x"))
		<-lease.Done()
		if err := lease.Unlock(t.Context()); !errors.Is(err, fairlock.ErrLost) {
			f.Fatalf("it is told: %v", err)
		}
		f.Ends(lease)
		f.Served(rest...)
		f.Until("nobody of the run stays in line", func() bool { return f.Line("x") == 0 })
	})
}

func TestATurnPassesToNoCallThatAsksForSomethingElse(t *testing.T) {
	for name, other := range map[string]fairlock.LockOption{
		"a fixed lease": fairlock.LeaseFor(time.Minute), "an owner": fairlock.WithOwner("saga"),
	} {
		t.Run(name, func(t *testing.T) {
			world.OnFaulty(t, func(f *world.Faulty) {
				for _, options := range [][][]fairlock.LockOption{{nil, {other}}, {{other}, nil}} {
					first, rest := running(f, f.Beside(), options...)
					f.Unlocks(first)
					second := rest[0].Gets()
					f.Keeps(second)
					if second.Token() <= first.Token()+lua.MaxRun {
						f.Fatalf("token %d, after %d: the turn was passed on", second.Token(), first.Token())
					}
					f.Unlocks(second)
				}
			})
		})
	}
}

func TestATurnThatWasExtendedIsReleased(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		first, rest := running(f, f.Beside(), nil, nil)
		f.Must(first.Extend(t.Context(), time.Hour))
		f.Unlocks(first)
		second := rest[0].Gets()
		if left := time.Until(second.Deadline()); left > time.Minute {
			f.Fatalf("it has the lock for %v", left)
		}
		f.Unlocks(second)
	})
}

func TestACallOfARunThatGaveUpIsSkipped(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		first, rest := running(f, f.Beside(), nil, nil, nil)
		rest[0].Cancel()
		if err := rest[0].Fails(); !errors.Is(err, context.Canceled) {
			f.Fatal(err)
		}
		f.Unlocks(first)
		rest[1].Gets()
		// Its leave may be on its way yet. Without one it would stay in line.
		world.UntilWithin(f.T, 5*time.Second, "it has left", func() bool { return f.Line("x") == 0 })
		f.Served(rest[1])
		(&faulty{f}).endsUpFree("x")
	})
}

func TestAClosedLockerPassesNoTurnOn(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u, other := f.Beside(), f.Beside()
		first, rest := running(f, u, nil, nil)
		next := other.Queues("x", 2)
		f.Must(u.Close())
		if err := rest[0].Fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Fatal(err)
		}
		f.Ends(first)
		f.Must(first.Unlock(t.Context()))
		f.Unlocks(next.Gets())
		f.Free("x")
	})
}

func TestATurnComesToACallWhoseFirstRequestIsNeverAnswered(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		f.LoadScripts()
		u := f.User(&redis.Options{Addr: f.Proxy.Addr(), ReadTimeout: 3 * time.Second})
		held := f.Beside().Locks("x")
		first := u.Queues("x", 1)
		f.Once(f.First(1), faultproxy.SwallowReplySilently())
		second := u.Queues("x", 2) // under a context that never ends
		f.Unlocks(held)
		f.Unlocks(first.Gets())
		f.Within(world.Soon, "the turn", func() { f.Unlocks(second.Gets()) })
	})
}

func TestAGrantInTheAnswerToTheLeaveOfALongRunIsTakenUp(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		u := f.Behind()
		renewals := f.All(f.Verb("renew"), faultproxy.HoldRequest()) // or one would bring the record back
		lease, rest := passed(f, u, 3)
		f.Ends(lease) // nobody tells it soon that its record is gone
		f.Must(f.Direct.Del(t.Context(), f.Keys("x").Record()).Err())
		var next *fairlock.Lease
		f.Within(world.Soon, "the next lock", func() { next = rest[0].Gets() })
		renewals.Remove()
		renewals.Release()
		<-lease.Done()
		if err := lease.Unlock(t.Context()); !errors.Is(err, fairlock.ErrLost) {
			f.Fatalf("the turn before is told: %v", err)
		}
		f.Keeps(next)
		f.Unlocks(next)
		f.Free("x")
	})
}
