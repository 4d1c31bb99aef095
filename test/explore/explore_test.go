package explore

import (
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlock/locks/test/race"
)

func TestEveryHistoryKeepsTheInvariants(t *testing.T) {
	sv := start(t)
	var faulty atomic.Bool // a search has found a fault
	var mu sync.Mutex      // guards made
	made := make(map[string]int)
	t.Cleanup(func() {
		if faulty.Load() || testing.Short() {
			return
		}
		for w := range elapses + 1 {
			if !race.Enabled && made[w.String()] == 0 {
				t.Errorf("in no history it happens that %s", w)
			}
		}
		for m := range twice + 1 {
			if w := begins.String() + m.String(); !race.Enabled && made[w] == 0 {
				t.Errorf("in no history it happens that %s", w)
			}
		}
	})
	for _, sc := range scenarios {
		switch {
		case race.Enabled:
			sc.most = 150
		case testing.Short():
			sc.most = 20_000
		case !whole():
			sc.most = 15_000
		}
		if flag.Lookup("test.failfast").Value.String() == "true" {
			sc.over = faulty.Load
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := search(sv, sc)
			mu.Lock()
			for w, n := range r.made {
				made[w] += n
			}
			mu.Unlock()
			t.Logf("%d states, %d transitions, depth %d, %v", r.states, r.transitions, r.depth, r.took.Round(time.Millisecond))
			if r.fault != nil {
				faulty.Store(true)
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}

// A number that differs from run to run would mean that something other than the state decides.
func TestASearchIsTheSameEveryTime(t *testing.T) {
	sv := start(t)
	sc := mixed(fickle, once, absentee, every.with(1, 1))
	sc.most = 1000
	if race.Enabled {
		sc.most = 150
	}
	first, second := search(sv, sc), search(sv, sc)
	first.took, second.took = 0, 0
	if first.states != second.states || first.transitions != second.transitions || first.depth != second.depth {
		t.Errorf("%+v, and then %+v", first, second)
	}
}
