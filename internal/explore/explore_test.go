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

var every = budget{delay: 1, lose: 1, late: 1, twice: 1, deaf: 1, crash: 1, stop: 1, dropped: 1, doubled: 1, flush: 1}

// with is b with as many jumps of time and faults in all.
func (b budget) with(ticks, faults int8) budget {
	b.ticks, b.faults = ticks, faults
	return b
}

var scenarios = []scenario{
	all(fickle, every.with(2, 1)).named("f1"),
	all(once, every.with(1, 2)).named("once f2"),
	all(fickle, every.with(1, 2)).named("f2"),
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
