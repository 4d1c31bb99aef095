package reentrant

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
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

func TestAPlainCallThatWasToldThatItWaitsGoesOnThroughDialsThatFail(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	l := New(rdb)
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	c := &call{request: Request{Wait: -1}}
	if l.patient(c, refused) {
		t.Error("a first request that cannot be sent is no error")
	}
	c.position = 1
	if !l.patient(c, refused) {
		t.Error("it gives up")
	}
}
