package stage

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/test/bubbles"
	"github.com/fairlock/locks/test/race"
)

// Seeds returns the range in SIMULATE_SEEDS, "7" or "1000-1999", or else those from first to last:
// to raced with the race detector, which makes them slow.
func Seeds(tb testing.TB, first, last, raced uint64) (from, to uint64, asked bool) {
	tb.Helper()
	if race.Enabled {
		last = raced
	}
	text := os.Getenv("SIMULATE_SEEDS")
	if text == "" {
		return first, last, false
	}
	begin, end, several := strings.Cut(text, "-")
	if !several {
		end = begin
	}
	from, err1 := strconv.ParseUint(begin, 10, 64)
	to, err2 := strconv.ParseUint(end, 10, 64)
	if err1 != nil || err2 != nil || to < from {
		tb.Fatalf("SIMULATE_SEEDS=%s: want a seed, or two with a dash between them", text)
	}
	return from, to, true
}

// stuck is how long a run may take in real time.
const stuck = 10 * time.Minute

// Bubble has f run in fake time. It ends the test if f has no end, since time stands still while
// somebody waits for a mutex.
func Bubble(t *testing.T, seed uint64, f func()) {
	t.Helper()
	defer time.AfterFunc(stuck, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d: no end after %v: somebody waits for a mutex for good", seed, stuck))
	}).Stop()
	bubbles.Test(t, func(*testing.T) { f() })
}
