package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// This happens if the enter is executed long after the answer to the leave, by a network that
// delays it for longer than the mark's minute.
func TestALockThatOneOfOurOwnTicketsHasAndNoCallKnowsIsGivenBackByWhoeverAsksNext(t *testing.T) {
	for _, how := range []string{"Lock", "TryLock"} {
		t.Run(how, func(t *testing.T) {
			onFaulty(t, func(f *faulty) { f.findsItsOwn(how) })
		})
		t.Run("plain "+how, func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				f.plain().findsItsOwn(how)
			})
		})
	}
}

func (f *faulty) findsItsOwn(how string) {
	a, b := f.Beside(), f.Beside()
	lease := a.Locks("x", fairlock.LeaseFor(time.Minute))
	owner, token := lease.Owner(), lease.Token()
	f.Unlocks(lease)
	record := f.Keys("x").Record()
	ends := time.Now().Add(time.Hour)
	f.Must(f.Direct.HSet(background, record, "owner", owner, "token", token, "since", time.Now().UnixMilli(), "lease", 60000,
		owner+":60000::", fmt.Sprint(ends.UnixMilli(), ":1")).Err())
	f.Must(f.Direct.PExpireAt(background, record, ends).Err())
	if _, err := b.TryLock(background, "x"); !errors.Is(err, fairlock.ErrHeld) {
		f.Fatalf("another process: %v", err)
	}
	if how == "TryLock" {
		if _, err := a.TryLock(background, "x"); !errors.Is(err, fairlock.ErrHeld) {
			f.Fatal(err)
		}
		f.Until("it is given back", func() bool { return f.Holder("x") == 0 })
	}
	f.Within(world.Patience, "the lock", func() { f.Unlocks(a.Locks("x")) })
	f.nobody("x")
}

// The ticket's hold is forced while one of its heartbeats is on its way. The heartbeat would put
// the ticket back in line.
func TestATicketWhoseHoldWasForcedIsNotInLineThoughAHeartbeatOfItIsExecutedLate(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b, c := f.Behind(fairlock.WithLease(time.Minute)), f.Beside(), f.Beside()
		holder := b.Locks("x")
		waits := a.Queues("x", 1)
		f.Heard(1)
		beat := f.All(f.Verb("enter"), faultproxy.HoldRequest())
		f.Until("it has a heartbeat under way", func() bool { return beat.Hits() > 0 })
		beat.Remove()
		f.Unlocks(holder)
		lost := waits.Gets()
		next := c.Queues("x", 1)
		f.Ends(lost)
		leave := f.Once(f.Verb("leave"), faultproxy.Observe()) // only its client is behind the proxy
		f.Must(b.ForceUnlock(background, "x"))
		<-lost.Done()
		leave.WaitExecuted(f, 1, world.Claim*4/5)
		beat.Release()
		beat.WaitExecuted(f, beat.Hits(), world.Patience)
		f.Served(next)
		if n := f.Line("x"); n != 0 {
			f.Errorf("%d in line", n)
		}
		if err := lost.Unlock(background); !errors.Is(err, fairlock.ErrLost) {
			f.Error(err)
		}
		f.nobody("x")
	})
}
