package fairlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
)

func TestACallWhoseFixedLeaseIsNotConfirmedYetEndsWithItsLocker(t *testing.T) {
	f := newFaulty(t)
	a, b := f.behind(), f.beside()
	holder := b.locks("x")
	w := a.queues("x", 1, fairlock.LeaseFor(time.Minute))
	confirmation := f.all(f.verb("renew"), faultproxy.DropRequest())
	f.unlocks(holder)
	f.until("its claim is to be confirmed", func() bool { return confirmation.Hits() > 0 })
	f.within(faultPatience, "Close", func() { f.must(a.Close()) })
	f.within(faultSoon, "Lock", func() {
		if err := w.fails(); !errors.Is(err, fairlock.ErrClosed) {
			f.Errorf("Lock says %v", err)
		}
	})
	f.nobody("x")
}
