package world

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/workers"
)

// Main is the TestMain of a package of test/.
func Main(m *testing.M) {
	workers.Main()    // takes over if this process was started as a worker
	logging.Disable() // servers go away here all the time
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(workers.Dials))
}

var background = context.Background()
