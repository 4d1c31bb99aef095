package stage

import (
	"fmt"
	"testing"
)

// Repeats fails unless each seed has its own history again and again, nearly every time: two things
// that happen at one instant may happen in either order, so two of five runs are enough. run makes
// the run that was planned for a seed, by the choices of that seed plus other.
func Repeats(t *testing.T, seeds []uint64, run func(t *testing.T, seed, other uint64) (digest uint64, requests int)) {
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			seen := make(map[uint64]int) // requests, by the digest of the history
			again := false
			for len(seen) < 5 && !again {
				digest, requests := run(t, seed, 0)
				before, known := seen[digest]
				if known && requests != before {
					t.Errorf("one history with %d requests and with %d", before, requests)
				}
				seen[digest], again = requests, known
			}
			if !again {
				t.Errorf("no two of five runs are the same: %v", seen)
			}
			if other, _ := run(t, seed, 1000); seen[other] > 0 {
				t.Errorf("seed %d has the same history", seed+1000)
			}
		})
	}
}
