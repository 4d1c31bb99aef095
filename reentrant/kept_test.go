package reentrant

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Both may have come to pass while its callback kept it.
func TestACallHasWhatIsConfirmedThoughItsWaitIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locker func(...Option) *Locker) {
		l := locker()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		h := &Hold{keeper: l.core.Keeper, ready: make(chan struct{}), settled: true}
		close(h.ready)
		for range 20 {
			if err := l.core.Keeper.confirmed(ended, h, time.Now(), time.Nanosecond); err != nil {
				t.Fatal(err)
			}
		}
	})
}
