package explore

import (
	"strings"
	"testing"
	"time"
)

func TestEveryHistoryKeepsTheInvariants(t *testing.T) {
	sv := start(t)
	for _, sc := range scenarios {
		if raceDetector {
			sc.most = 150
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := search(sv, sc)
			t.Logf("%d states, %d transitions, depth %d, %v", r.states, r.transitions, r.depth, r.took.Round(time.Millisecond))
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}

// A number that differs from run to run would mean that something else than the state decides.
func TestASearchIsTheSameEveryTime(t *testing.T) {
	sv := start(t)
	sc := mixed(fickle, once, absentee, every.with(1, 1))
	sc.most = 1000
	if raceDetector {
		sc.most = 150
	}
	first, second := search(sv, sc), search(sv, sc)
	first.took, second.took = 0, 0
	if first.states != second.states || first.transitions != second.transitions || first.depth != second.depth {
		t.Errorf("%+v, and then %+v", first, second)
	}
}
