package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// onLostReplies runs the test with each way to lose a reply: the connection closes, stays silent,
// or a proxy answers that the reply is lost.
func onLostReplies(t *testing.T, test func(f *faulty, lost faultproxy.Action)) {
	t.Helper()
	losing := func(action faultproxy.Action) func(t *testing.T) {
		return func(t *testing.T) { onFaulty(t, func(f *faulty) { test(f, action) }) }
	}
	world.Together(t, map[string]func(*testing.T){
		"closed":                           losing(faultproxy.SwallowReply()),
		"silent":                           losing(faultproxy.SwallowReplySilently()),
		"said to be lost by another proxy": losing(faultproxy.RewriteReply(func([]byte) []byte { return []byte("-upstream failure\r\n") })),
	})
}

// tries returns what TryLock says of x when its first answer is lost. If the machine stands still
// for as long as a try insists, there is another try.
func (f *faulty) tries(a *world.User, lost faultproxy.Action) (lease *fairlock.Lease, err error) {
	f.Helper()
	holder := f.Holder("x")
	for range 10 {
		reply := f.Once(f.Verb("enter"), lost)
		began := time.Now()
		lease, err = a.TryLock(background, "x")
		took := time.Since(began)
		reply.WaitExecuted(f, 1, world.Patience)
		if took > world.Soon && err == nil {
			f.Errorf("TryLock took %v", took)
		}
		if err == nil || errors.Is(err, fairlock.ErrHeld) || took <= rules.InsistFor {
			break
		}
		f.Until("the try has left", func() bool { return f.Holder("x") == holder })
	}
	return lease, err
}

func TestALockWhoseGrantWasLostOnTheWayIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		reply := f.Once(f.Verb("enter"), lost)
		w := a.Asks(background, "x")
		lease := w.Gets()
		reply.WaitExecuted(f, 1, world.Patience)
		if w.Took > world.Soon {
			f.Errorf("it took %v", w.Took)
		}
		f.Keeps(lease)
		record := f.Direct.PTTL(background, f.Keys("x").Record()).Val()
		// This allows for two clocks and whole milliseconds; the silence is thirty times as long.
		const clocks = 10 * time.Millisecond
		if trust := time.Until(lease.Deadline()); trust > record-3*time.Second+clocks {
			f.Errorf("it is trusted for %v, and on the server for %v", trust, record)
		}
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestATryWhoseGrantWasLostOnTheWayHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.Behind()
		f.meet(a)
		lease, err := f.tries(a, lost)
		f.Must(err)
		f.Took(lease)
		f.Keeps(lease)
		f.Unlocks(lease)
		f.Free("x")
	})
}

func TestAWaiterWhosePlaceWasLostOnTheWayHasIt(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		reply := f.Once(f.Verb("enter"), lost)
		first := a.Asks(background, "x")
		reply.WaitExecuted(f, 1, world.Patience)
		second := c.Queues("x", 2)
		f.Unlocks(holder)
		f.Served(first, second)
	})
}

func TestAWaiterWhoseHeartbeatWasLostOnTheWayKeepsItsPlace(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		holder := b.Locks("x")
		reply := f.Once(theSecond(f.Verb("enter")), lost) // the second enter comes when its subscription is up
		again := f.All(f.Verb("enter"), faultproxy.Observe())
		first := a.Queues("x", 1)
		second := c.Queues("x", 2)
		reply.WaitExecuted(f, 1, world.Patience)
		again.WaitExecuted(f, 3, world.Patience)
		if n := f.Line("x"); n != 2 {
			f.Errorf("%d in line", n)
		}
		f.Unlocks(holder)
		f.Served(first, second)
	})
}

func TestAGrantInTheAnswerToAHeartbeatThatWasLostIsTakenUp(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.Behind(), f.Beside(), f.Beside()
		f.meet(a, b)
		f.Ends(b.Locks("x", fairlock.LeaseFor(4*time.Second))) // nobody unlocks it
		enter := f.Verb("enter")
		reply := f.Once(func(args []string) bool { return enter(args) && f.Holder("x") == 0 }, lost)
		first := a.Queues("x", 1)
		reply.WaitExecuted(f, 1, world.Patience)
		f.Until("a has the lock", func() bool { return f.Holder("x") != 0 })
		second := c.Queues("x", 1)
		f.Served(first, second)
		if first.Took > 6*time.Second {
			f.Errorf("it took %v", first.Took)
		}
	})
}

func TestWhoeverWasLetIntoAFullLineIsNotTurnedAwayBecauseTheAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		reply := f.Once(f.Verb("enter"), lost)
		w := a.Asks(background, "x", fairlock.MaxWaiters(1))
		reply.WaitExecuted(f, 1, world.Patience)
		again := f.All(f.Verb("enter"), faultproxy.Observe())
		again.WaitExecuted(f, 1, world.Patience)
		w.Waits()
		f.Unlocks(holder)
		f.Served(w)
	})
}

func TestTheFirstQuestionsToAServerAreAskedAgainWhenTheirAnswersAreLost(t *testing.T) {
	for _, command := range []string{"INFO", "PUBLISH"} {
		onFaulty(t, func(f *faulty) {
			reply := f.Once(faultproxy.Command(command), faultproxy.SwallowReply())
			f.Unlocks(f.Behind().Locks("x"))
			reply.WaitExecuted(f, 1, world.Patience)
		})
	}
}

func TestASubscriptionWhoseConfirmationWasLostIsMadeAgain(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Behind(), f.Beside()
		holder := b.Locks("x")
		reply := f.Once(faultproxy.Command("SUBSCRIBE"), faultproxy.SwallowReply())
		again := f.All(faultproxy.Command("SUBSCRIBE"), faultproxy.Observe())
		w := a.Queues("x", 1)
		reply.WaitExecuted(f, 1, world.Patience)
		again.WaitExecuted(f, 2, world.Patience)
		f.Unlocks(holder)
		f.Served(w)
	})
}

// The replicas confirm whatever is asked: the server answers so if the connection wrote nothing.
func TestAGrantWhoseAnswerWasLostIsConfirmedByAWriteOfItsOwn(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind()
		f.meet(a)
		for name, get := range map[string]func() (*fairlock.Lease, error){
			"try":  func() (*fairlock.Lease, error) { return a.TryLock(background, "try", replicated) },
			"lock": func() (*fairlock.Lease, error) { return a.Lock(background, "lock", replicated) },
		} {
			lost := f.Once(f.Verb("enter"), faultproxy.SwallowReply())
			f.All(faultproxy.Command("wait"), faultproxy.RewriteReply(func([]byte) []byte { return []byte(":1\r\n") }))
			writes := f.Proxy.Count(f.Verb("renew"))
			lease, err := get()
			f.Must(err)
			f.Took(lease)
			lost.WaitExecuted(f, 1, world.Patience)
			if f.Proxy.Count(f.Verb("renew")) == writes {
				f.Errorf("%s: nothing was written that the replicas could have confirmed", name)
			}
			f.Unlocks(lease)
		}
	})
}

var replicated = fairlock.WithReplicas(1, 50*time.Millisecond)

func TestTheQuestionToTheReplicasEndsWithTheTimeThatTheCallMayWait(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a := f.Behind()
		f.Unlocks(a.Locks("y"))
		f.Once(f.Verb("enter"), faultproxy.SwallowReply())
		f.All(f.Verb("renew"), faultproxy.SwallowReplySilently())
		f.Within(2*world.Soon, "Lock", func() {
			_, err := a.Lock(background, "x", replicated, fairlock.WaitAtMost(100*time.Millisecond))
			if wait := new(fairlock.WaitError); !errors.As(err, &wait) {
				f.Errorf("it says %v", err)
			}
		})
	})
}

// All waiters of a lock share their heartbeats, so they would wait for one's replicas.
func TestAHeartbeatAsksNoReplicas(t *testing.T) {
	world.OnFaulty(t, func(f *world.Faulty) {
		f.LoadScripts()
		u := f.User(&redis.Options{Addr: f.Proxy.Addr()})
		held := f.Beside().Locks("x")
		other := u.Queues("x", 1)
		f.Once(f.First(1), faultproxy.SwallowReply())
		asked := f.All(faultproxy.Command("wait"), faultproxy.Observe())
		enters := f.All(f.Verb("enter"), faultproxy.Observe())
		w := u.Asks(background, "x", fairlock.WithReplicas(1, 200*time.Millisecond))
		enters.WaitExecuted(f, 3, world.Patience) // the first of them is its own
		if n := asked.Hits(); n > 1 {
			f.Errorf("replicas were asked %d times", n)
		}
		f.Unlocks(held)
		f.Unlocks(other.Gets())
		if err := w.Fails(); !errors.Is(err, fairlock.ErrNotReplicated) {
			f.Errorf("it says %v", err)
		}
	})
}
