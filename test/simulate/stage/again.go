package stage

import "testing"

// Again makes a run until one is the same as an earlier one, five times at most, and fails if none
// is: two things that happen at one instant may happen in either order. It returns how many
// requests each history had, by its digest.
func Again(t testing.TB, run func() (digest uint64, requests int)) map[uint64]int {
	t.Helper()
	seen := make(map[uint64]int)
	for len(seen) < 5 {
		digest, requests := run()
		before, again := seen[digest]
		if again && requests != before {
			t.Errorf("one history with %d requests and with %d", before, requests)
		}
		if seen[digest] = requests; again {
			return seen
		}
	}
	t.Errorf("no two of five runs are the same: %v", seen)
	return seen
}
