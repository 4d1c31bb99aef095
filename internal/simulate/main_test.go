package simulate

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable()             // go-redis tells of every failed dial
	debug.SetGCPercent(1000)      // every script gets a Lua state of its own: most of the time went into sweeping them up
	debug.SetMemoryLimit(1 << 30) // of which gigabytes could pile up, and starve the tests beside it
	os.Exit(m.Run())
}
