package explore

import (
	"strings"
	"testing"
)

var (
	once   = program{tickets: 1}
	fickle = program{tickets: 1, cancels: true}
)

func all(p program, b budget) scenario {
	return scenario{programs: [clients]program{p, p, p}, budget: b}
}

// named is sc under a name.
func (sc scenario) named(name string) scenario {
	sc.name = name
	return sc
}

var scenarios = []scenario{
	all(fickle, budget{ticks: 2, faults: 1, crash: 1, stop: 1, deaf: 1, dropped: 1, doubled: 1}).named("killed, stopped and deaf"),
	all(fickle, budget{ticks: 1, faults: 1, delay: 1, lose: 1, twice: 1}).named("delayed, lost and doubled"),
	all(once, budget{ticks: 2, faults: 2, crash: 1, flush: 1}).named("killed and forgotten"),
	all(once, budget{ticks: 1, faults: 1, deaf: 1, force: 1}).named("forced"),
}

func TestEveryHistoryKeepsTheInvariants(t *testing.T) {
	sv := start(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			r := search(sv, sc)
			t.Logf("%d states, %d transitions, depth %d, %v", r.states, r.transitions, r.depth, r.took.Round(1e6))
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}
