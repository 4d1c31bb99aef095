package workloads

import "testing"

// line returns a log in which the attempts were granted in the order of the list.
func line(attempts ...Attempt) []Attempt {
	for i := range attempts {
		attempts[i].Granted = int64(1000 + i)
	}
	return attempts
}

func TestAGrantIsOutOfOrderOnlyIfSomebodyHadCertainlyArrivedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		log []Attempt
		out int
	}{
		"in order":                       {line(Attempt{Began: 1, Queued: 2}, Attempt{Began: 3, Queued: 4}), 0},
		"overtaken":                      {line(Attempt{Began: 3, Queued: 4}, Attempt{Began: 1, Queued: 2}), 1},
		"two at the same time":           {line(Attempt{Began: 2, Queued: 4}, Attempt{Began: 1, Queued: 3}), 0},
		"two overtake one":               {line(Attempt{Began: 5, Queued: 6}, Attempt{Began: 3, Queued: 4}, Attempt{Began: 1, Queued: 2}), 2},
		"one that is never granted":      {append(line(Attempt{Began: 3}), Attempt{Began: 1, Queued: 2}), 1},
		"nobody tells, and it was close": {line(Attempt{Began: 3}, Attempt{Began: 1}), 0},
		"nobody tells, but long ago":     {line(Attempt{Began: 2 + int64(surely)}, Attempt{Began: 1}), 1},
		"the peer's own order":           {line(Attempt{Began: 9, Place: 1}, Attempt{Began: 1, Queued: 2, Place: 2}), 0},
		"against the peer's own order":   {line(Attempt{Began: 1, Place: 2}, Attempt{Began: 9, Place: 1}), 1},
	} {
		if out, _ := overtaken(c.log); out != c.out {
			t.Errorf("%s: %d are out of order, want %d", name, out, c.out)
		}
	}
}

func TestJainsIndexIsOverWholeRounds(t *testing.T) {
	even := line(Attempt{Waiter: 1}, Attempt{Waiter: 2}, Attempt{Waiter: 1}, Attempt{Waiter: 2}, Attempt{Waiter: 1})
	if index, ok := jain(even, 2); !ok || index != 1 {
		t.Errorf("in turns: %v %v, want 1", index, ok)
	}
	one := line(Attempt{Waiter: 1}, Attempt{Waiter: 1}, Attempt{Waiter: 1}, Attempt{Waiter: 1})
	if index, ok := jain(one, 4); !ok || index != 0.25 {
		t.Errorf("all to one of four: %v %v, want 0.25", index, ok)
	}
	if _, ok := jain(even, 6); ok {
		t.Error("five grants are a round of six")
	}
}
