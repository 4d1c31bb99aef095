package fairlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/workers"
)

func TestMain(m *testing.M) {
	workers.Main()    // if this process was started as one
	logging.Disable() // servers go away here all the time
	goleak.VerifyTestMain(m)
}

// waitUntil returns when something holds. It must within a time that only a bug needs.
func waitUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	waitWithin(t, 20*time.Second, what, holds)
}

func waitWithin(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited %v in vain until %s", within, what)
		}
	}
}
