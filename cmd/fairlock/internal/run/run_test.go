package run

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestByDefaultTheCommandIsDeadBeforeTheServerGivesTheLockToAnother(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		for _, r := range []Command{{Lease: lease}, {Lease: time.Hour, FixedLease: &lease}, {Lease: time.Millisecond, FixedLease: &lease}} {
			if after, margin := r.killAfter(), fairlock.Margin(lease); after <= 0 || after > margin*3/4 {
				t.Errorf("a lease of %v: SIGKILL %v after SIGTERM, and the margin is %v", lease, after, margin)
			}
		}
	}
}
