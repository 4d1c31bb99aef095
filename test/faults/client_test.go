package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/world"
)

func TestACallThatWaitsEndsWhenItsClientIsClosed(t *testing.T) {
	onBothKinds(t, func(f *faulty) { f.endsWithItsClient() })
}

func TestACallThatAsksReplicasEndsWhenItsClientIsClosed(t *testing.T) {
	onBothKinds(t, func(f *faulty) { f.endsWithItsClient(fairlock.WithReplicas(1, 10*time.Millisecond)) })
}

// endsWithItsClient has a call wait whose client is then closed.
func (f *faulty) endsWithItsClient(options ...fairlock.LockOption) {
	f.Helper()
	held := f.Beside().Locks("x")
	u := f.Behind()
	w := u.WaitsPlainly("x", options...)
	f.Must(u.Client.Close())
	f.Unlocks(held)
	f.Within(world.Patience, "Lock", func() {
		if err := w.Fails(); !errors.Is(err, redis.ErrClosed) {
			f.Errorf("it says %v", err)
		}
	})
	// To the server, who was next has died. A plain lock knows of nobody who is next.
	if err := f.Beside().ForceUnlock(background, "x"); !errors.Is(err, fairlock.ErrNotHeld) {
		f.Must(err)
	}
}

func TestAnUnlockWhoseClientIsClosedSaysSoAtOnce(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		u := f.Behind()
		lease := u.Locks("x")
		f.Must(u.Client.Close())
		f.Within(world.Soon, "Unlock", func() {
			if err := lease.Unlock(background); !errors.Is(err, redis.ErrClosed) || errors.Is(err, fairlock.ErrLost) {
				f.Errorf("it says %v", err)
			}
		})
		f.Must(f.Beside().ForceUnlock(background, "x"))
	})
}

func TestAnUnlockThatIsNotConfirmedNamesWhatTheServerSays(t *testing.T) {
	onBothKinds(t, func(f *faulty) {
		lease := f.Beside().Locks("x")
		f.Must(f.Direct.ConfigSet(background, "min-replicas-to-write", "1").Err())
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if err := lease.Unlock(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "NOREPLICAS") {
			f.Errorf("it says %v", err)
		}
		f.Must(f.Direct.ConfigSet(background, "min-replicas-to-write", "0").Err())
		f.endsUpFree("x")
	})
}
