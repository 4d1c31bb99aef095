// Package bubbles runs tests in fake time.
package bubbles

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fairlock/locks/test/race"
)

// Test is synctest.Test. With the race detector it runs on one processor: timers that go off on two
// at once, as the channels of a bubble's timers do, crash the detector (golang.org/issue/78156).
func Test(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if race.Enabled {
		narrow()
		defer widen()
	}
	synctest.Test(t, test)
}

var (
	mu     sync.Mutex // guards what follows
	inside int        // tests
	before int        // processors
)

func narrow() {
	mu.Lock()
	defer mu.Unlock()
	if inside++; inside == 1 {
		before = runtime.GOMAXPROCS(1)
	}
}

func widen() {
	mu.Lock()
	defer mu.Unlock()
	if inside--; inside == 0 {
		runtime.GOMAXPROCS(before)
	}
}
