package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// A client hears messages and answers on two connections. So it may learn that its ownership was
// forced before it learns that it had the lock.
func TestALockForcedBeforeItsHolderWasToldOfItIsNotTrusted(t *testing.T) {
	for kind, setup := range map[string]func(f *faulty){"fair": func(*faulty) {}, "plain": func(f *faulty) { f.plain() }} {
		t.Run(kind, func(t *testing.T) {
			onFaulty(t, func(f *faulty) {
				setup(f)
				a, b := f.Patient(), f.Beside()
				first := b.Locks("x") // a listens once it has waited
				w := a.Asks(background, "x")
				f.Until("it listens", func() bool { return len(f.Direct.PubSubChannels(background, f.Prefix+":wake:*").Val()) > 0 })
				f.Unlocks(first)
				f.Unlocks(w.Gets())
				sign := a.Locks("sign")

				arrives := make(chan struct{})
				stuck := f.Once(f.First(1), faultproxy.RewriteReply(func(reply []byte) []byte {
					<-arrives
					return reply
				}))
				w = a.Asks(background, "x")
				stuck.WaitExecuted(f, 1, world.Patience)
				f.Must(b.ForceUnlock(background, "x"))
				next := b.Locks("x")
				f.Ends(sign)
				f.Must(b.ForceUnlock(background, "sign"))
				<-sign.Done() // a has heard of the force of x before this one
				asked := f.Proxy.Count(f.Verb("enter"))
				close(arrives)
				f.Until("it asks again", func() bool { return f.Proxy.Count(f.Verb("enter")) > asked || w.HasReturned() })
				f.Unlocks(next)
				lease := w.Gets()
				f.Keeps(lease)
				f.Unlocks(lease)
				f.Free("x")
			})
		})
	}
}

// Whoever forced has gone before the server does it. The answer grants the lock to a call of the
// same process, and nobody else is told of that.
func TestAForceWhoseCallerHasGoneEndsAsItWould(t *testing.T) {
	onFaulty(t, func(f *faulty) {
		a, b := f.Patient(), f.Beside()
		first := b.Locks("x")
		next := a.Queues("x", 1)
		f.Heard(1)
		ctx, cancel := context.WithCancel(background)
		force := f.Once(f.Verb("force"), faultproxy.HoldRequest())
		ended := make(chan error, 1)
		go func() { ended <- a.ForceUnlock(ctx, "x") }()
		force.WaitHit(f, 1, world.Patience)
		asks := f.Once(f.Verb("enter"), faultproxy.Observe())
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
		asks.WaitExecuted(f, 1, world.Patience) // it may have missed an answer
		force.Release()
		f.Ends(first)
		f.Within(world.Claim*4/5, "the grant", func() { f.Unlocks(next.Gets()) })
		f.Free("x")
	})
}
