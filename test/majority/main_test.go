package majority

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(300) // a search keeps most of what it allocates
	goleak.VerifyTestMain(m)
}
