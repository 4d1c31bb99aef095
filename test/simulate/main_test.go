package simulate

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every failed dial
	// Every script gets a Lua state of its own, and sweeping these up took most of the time.
	// Without a limit, gigabytes of them could pile up and starve the tests beside this one.
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
