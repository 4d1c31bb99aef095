package simulate

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every failed dial
	// Most of what a run allocates is garbage at once. Without a limit, it could pile up and starve
	// the tests beside this one.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(2 << 30)
	os.Exit(m.Run())
}
