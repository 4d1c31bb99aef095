package fairlock_test

import (
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

// onLostReplies runs the test where a lost reply means a closed connection, and where it means silence.
func onLostReplies(t *testing.T, test func(f *faulty, lost faultproxy.Action)) {
	t.Helper()
	losing := func(action faultproxy.Action) func(t *testing.T) {
		return func(t *testing.T) { onFaulty(t, func(f *faulty) { test(f, action) }) }
	}
	together(t, map[string]func(*testing.T){
		"closed":                           losing(faultproxy.SwallowReply()),
		"silent":                           losing(faultproxy.SwallowReplySilently()),
		"said to be lost by another proxy": losing(faultproxy.RewriteReply(func([]byte) []byte { return []byte("-upstream failure\r\n") })),
	})
}

func TestALockWhoseGrantWasLostOnTheWayIsHeldOnce(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.behind()
		reply := f.once(f.verb("enter"), lost)
		w := a.asks(faultCtx, "x")
		lease := w.gets()
		reply.WaitExecuted(f, 1, faultPatience)
		if w.took > faultSoon {
			f.Errorf("it took %v", w.took)
		}
		f.keeps(lease)
		record := f.direct.PTTL(faultCtx, f.keys("x").Record()).Val()
		const clocks = 10 * time.Millisecond // two of them, and whole milliseconds; the silence is thirty times as long
		if trust := time.Until(lease.Deadline()); trust > record-3*time.Second+clocks {
			f.Errorf("it is trusted for %v, and on the server for %v", trust, record)
		}
		f.unlocks(lease)
		f.free("x")
	})
}

func TestATryWhoseGrantWasLostOnTheWayHoldsTheLock(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a := f.behind()
		reply := f.once(f.verb("enter"), lost)
		f.within(faultSoon, "TryLock", func() {
			lease, err := a.TryLock(faultCtx, "x")
			f.must(err)
			f.took(lease)
		})
		reply.WaitExecuted(f, 1, faultPatience)
		f.keeps(f.oldest())
		f.unlocks(f.oldest())
		f.free("x")
	})
}

func TestAWaiterWhosePlaceWasLostOnTheWayHasIt(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		reply := f.once(f.verb("enter"), lost)
		first := a.asks(faultCtx, "x")
		reply.WaitExecuted(f, 1, faultPatience)
		second := c.queues("x", 2)
		f.unlocks(holder)
		f.served(first, second)
	})
}

func TestAWaiterWhoseHeartbeatWasLostOnTheWayKeepsItsPlace(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		holder := b.locks("x")
		reply := f.once(faultSecond(f.verb("enter")), lost) // which comes when its subscription is up
		again := f.all(f.verb("enter"), faultproxy.Observe())
		first := a.queues("x", 1)
		second := c.queues("x", 2)
		reply.WaitExecuted(f, 1, faultPatience)
		again.WaitExecuted(f, 3, faultPatience)
		if n := f.line("x"); n != 2 {
			f.Errorf("%d in line", n)
		}
		f.unlocks(holder)
		f.served(first, second)
	})
}

func TestAGrantInTheAnswerToAHeartbeatThatWasLostIsTakenUp(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b, c := f.behind(), f.beside(), f.beside()
		f.ends(b.locks("x", fairlock.LeaseFor(300*time.Millisecond))) // nobody unlocks it
		enter := f.verb("enter")
		reply := f.once(func(args []string) bool { return enter(args) && f.holder("x") == 0 }, lost)
		first := a.queues("x", 1)
		reply.WaitExecuted(f, 1, faultPatience)
		f.until("a has the lock", func() bool { return f.holder("x") != 0 })
		second := c.queues("x", 1)
		f.served(first, second)
		if first.took > 2*time.Second {
			f.Errorf("it took %v", first.took)
		}
	})
}

func TestWhoeverWasLetIntoAFullLineIsNotTurnedAwayBecauseTheAnswerWasLost(t *testing.T) {
	onLostReplies(t, func(f *faulty, lost faultproxy.Action) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		reply := f.once(f.verb("enter"), lost)
		w := a.asks(faultCtx, "x", fairlock.MaxWaiters(1))
		reply.WaitExecuted(f, 1, faultPatience)
		again := f.all(f.verb("enter"), faultproxy.Observe())
		again.WaitExecuted(f, 1, faultPatience)
		w.waits()
		f.unlocks(holder)
		f.served(w)
	})
}

func TestTheFirstQuestionsToAServerAreAskedAgainWhenTheirAnswersAreLost(t *testing.T) {
	for _, command := range []string{"INFO", "PUBLISH"} {
		onFaulty(t, func(f *faulty) {
			reply := f.once(faultproxy.Command(command), faultproxy.SwallowReply())
			f.unlocks(f.behind().locks("x"))
			reply.WaitExecuted(f, 1, faultPatience)
		})
	}
}

func TestASubscriptionWhoseConfirmationWasLostIsMadeAgain(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.behind(), f.beside()
		holder := b.locks("x")
		reply := f.once(faultproxy.Command("SUBSCRIBE"), faultproxy.SwallowReply())
		again := f.all(faultproxy.Command("SUBSCRIBE"), faultproxy.Observe())
		w := a.queues("x", 1)
		reply.WaitExecuted(f, 1, faultPatience)
		again.WaitExecuted(f, 2, faultPatience)
		f.unlocks(holder)
		f.served(w)
	})
}
