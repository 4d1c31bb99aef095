package locktest_test

import (
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/race"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers go away here all the time
	if race.Enabled {
		runtime.GOMAXPROCS(1) // see package bubbles: the examples here use synctest as a user would
	}
	goleak.VerifyTestMain(m)
}
