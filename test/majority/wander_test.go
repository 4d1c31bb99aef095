package majority

import (
	"strings"
	"testing"

	"github.com/fairlock/locks/test/race"
)

// every allows each fault.
func every(faults int8) budget {
	return budget{
		slow: -1, lag: -1, giveUps: 1, kills: 1, lost: 2, late: 2, deaf: 2, restarts: 1, yesterdays: 1, intact: 1, flushes: 1,
		hangs: 2, deaths: 1, forces: 1, evictions: 1, renewals: 2, faults: faults,
	}
}

// timely is every, and time passes.
func timely(faults int8) budget {
	b := every(faults)
	b.ticks = 5
	return b
}

// wide are worlds that are too large to search.
var wide = []scenario{
	{name: "three calls", programs: three, allows: every(0)},
	{name: "three calls, a fault", programs: three, allows: every(1)},
	{name: "three calls, three faults", programs: three, allows: every(3)},
	{name: "three calls, time, a fault", programs: three, allows: timely(1)},
	{name: "three calls, time, three faults", programs: three, allows: timely(3)},
	{name: "three calls, clocks apart, time, a fault", programs: three, clocks: apart, allows: timely(1)},
	{name: "three calls, clocks near, time, two faults", programs: three, clocks: near, allows: timely(2)},
	{name: "two locks and a try, time, two faults", programs: calls(lock, try, lock), allows: timely(2)},
	{name: "a bound, time, a fault", programs: calls(lock, program{true, 1}, program{true, 1}), allows: timely(1)},
	{name: "not yet heard, time, two faults", programs: three, deaf: true, allows: timely(2)},
	{name: "fine steps of time, two faults", programs: three, step: 500, allows: timely(2)},
}

// histories is how many a test follows in each world: in CI, by hand, and where a sample is enough.
// There is hardly anything to race: the race detector has a fifth of the sample.
func histories(usual, all, sample int) int {
	switch {
	case whole():
		return all
	case race.Enabled:
		return sample / 5
	case testing.Short():
		return sample
	}
	return usual
}

func TestNoHistoryAtRandomBreaksAPromise(t *testing.T) {
	histories := histories(1500, 20_000, 100)
	for _, sc := range wide {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := wander(&sc, histories)
			t.Logf("%s: %d histories, %d transitions, %v", sc.name, histories, r.transitions, r.took)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}
