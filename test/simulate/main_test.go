package simulate

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every failed dial
	// Every script gets a Lua state of its own: most of the time went into sweeping them up. Gigabytes
	// of them could pile up, and starve the tests beside this.
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
