package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

func TestACallWhoseFixedLeaseIsNotConfirmedYetEndsWithItsLocker(t *testing.T) {
	f := newFaulty(t)
	a, b := f.Behind(), f.Beside()
	holder := b.Locks("x")
	w := a.Queues("x", 1, fairlock.LeaseFor(time.Minute))
	confirmation := f.All(f.Verb("renew"), faultproxy.DropRequest())
	f.Unlocks(holder)
	f.Until("its claim is to be confirmed", func() bool { return confirmation.Hits() > 0 })
	f.Within(world.Patience, "Close", func() { f.Must(a.Close()) })
	f.Within(world.Soon, "Lock", func() {
		if err := w.Fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Errorf("Lock says %v", err)
		}
	})
	f.nobody("x")
}
