package stage

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Seeds returns the range in SIMULATE_SEEDS, "7" or "1000-1999", or else those from first to last.
func Seeds(tb testing.TB, first, last uint64) (from, to uint64, asked bool) {
	tb.Helper()
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
