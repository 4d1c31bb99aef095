package engine

import (
	"context"
	"testing"
	"time"
)

// Both may have happened while the call's callback kept it.
func TestACallHasWhatIsConfirmedThoughItsWaitIsOver(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := &Core{stop: make(chan struct{})}
	h := &Hold{core: c, ready: make(chan struct{}), isReady: true}
	close(h.ready)
	for range 20 {
		if err := c.awaitFixedLease(ended, h, time.Now(), time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}
}
