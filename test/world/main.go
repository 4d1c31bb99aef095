package world

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/fairlock/locks/test/workers"
)

// dials is where go-redis tries again to reach a server that is away. It goes on for a second after
// the pool was closed.
const dials = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// Main is the TestMain of a package of test/.
func Main(m *testing.M) {
	workers.Main()    // takes over if this process was started as a worker
	logging.Disable() // servers go away here all the time
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(dials))
}

var background = context.Background()
