package faketime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/test/bubbles"
)

// The longer a server is away, the seldomer it is asked.
func TestCloseDoesNotWaitForTheNextAttemptToReachAServerThatIsAway(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		locks := locktest.New(t)
		locks.HoldElsewhere("x")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := locks.Lock(ctx, "x")
			ended <- err
		}()
		locks.AwaitWaiters("x", 1)
		lease, err := locks.Lock(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		locks.Server.Stop()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := lease.Unlock(short); err == nil || errors.Is(err, fairlock.ErrLost) {
			t.Errorf("got %v", err)
		}
		time.Sleep(20 * time.Second)
		began := time.Now()
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 700*time.Millisecond { // go-redis dials more than once
			t.Errorf("Close took %v", took)
		}
	})
}
