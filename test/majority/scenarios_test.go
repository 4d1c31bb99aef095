package majority

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairlock/locks/test/race"
)

var (
	lock = program{present: true}
	try  = program{present: true, bound: -1}
)

func calls(all ...program) (p [most]program) {
	copy(p[:], all)
	return p
}

// lately lets answers and messages take their time. Requests always do.
func lately(b budget) budget {
	b.slow, b.lag = -1, -1
	return b
}

var late = lately(budget{})

// fault allows one fault.
func fault(b budget) budget {
	b.faults = 1
	return b
}

var two = calls(lock, lock)

// apart are clocks of nodes that differ by more than a claim.
var apart = [masters]int64{0, 10_000, 20_000}

// near are clocks of nodes that differ by less.
var near = [masters]int64{0, 1000, 2000}

var three = calls(lock, lock, lock)

// scenarios are searched to their ends.
var scenarios = []scenario{
	{name: "two calls", programs: two, allows: late},
	{name: "two tries", programs: calls(try, try), allows: late},
	{name: "a call and a try", programs: calls(lock, try), allows: late},
	{name: "two calls, both give up", programs: two, allows: lately(budget{giveUps: 2})},
	{name: "two calls, renewals", programs: two, allows: budget{renewals: 1}},
	{name: "two calls, clocks near", programs: two, clocks: near},
	{name: "two calls, clocks apart", programs: two, clocks: apart},
	{name: "first start", programs: two, unmet: true, allows: late},
	{name: "two nodes hang as all begins", programs: two, hung: 0b11, allows: late},
	{name: "a node is dead", programs: two, dead: 0b1, allows: late},
	{name: "a node dies", programs: two, allows: lately(fault(budget{deaths: 1}))},
	{name: "a node hangs", programs: two, allows: fault(budget{hangs: 1})},
	{name: "a node is flushed", programs: two, allows: lately(fault(budget{flushes: 1}))},
	{name: "a node restarts empty", programs: two, quick: true, allows: lately(fault(budget{restarts: 1}))},
	{name: "a node restarts with old data", programs: two, quick: true, allows: lately(fault(budget{yesterdays: 1}))},
	{name: "a node restarts with its data", programs: two, quick: true, allows: lately(fault(budget{intact: 1}))},
	{name: "a node forgets while a holder has all votes", programs: two, allows: lately(fault(budget{amnesias: 1}))},
	{name: "a client is killed", programs: two, allows: lately(fault(budget{kills: 1}))},
	{name: "a client reaches one node, another one two", programs: two, cuts: [most]uint8{0b110}, dead: 0b100, allows: budget{ticks: 1}},
	{name: "a request or an answer is lost", programs: two, allows: lately(fault(budget{lost: 1}))},
	{name: "a request is late", programs: two, allows: fault(budget{late: 1})},
	{name: "a subscription breaks", programs: two, allows: fault(budget{deaf: 1})},
	{name: "forced", programs: two, allows: fault(budget{forces: 1})},
	{name: "evicted", programs: two, allows: fault(budget{evictions: 1})},
	{name: "three calls, a node is dead", programs: three, dead: 0b1, allows: late},
	{name: "three calls, a node is dead, one gives up", programs: three, dead: 0b1, allows: budget{giveUps: 1}},
	{name: "three calls, a node is dead, another one is flushed", programs: three, dead: 0b1, allows: fault(budget{flushes: 1})},
	{name: "three calls, a node is dead, clocks near", programs: three, dead: 0b1, clocks: near},
	{name: "three calls, a node is dead, clocks apart", programs: three, dead: 0b1, clocks: apart},
	{name: "three calls, a node is dead, another one hangs", programs: three, dead: 0b1, allows: fault(budget{hangs: 1})},
	{name: "three calls, a node is dead, another one restarts empty", programs: three, dead: 0b1, quick: true, allows: fault(budget{restarts: 1})},
	{name: "three calls, a node is dead, another one restarts with old data", programs: three, dead: 0b1, quick: true, allows: fault(budget{yesterdays: 1})},
	{name: "three calls, a node is dead, another one restarts with its data", programs: three, dead: 0b1, quick: true, allows: fault(budget{intact: 1})},
	{name: "three calls, a node is dead, a client is killed", programs: three, dead: 0b1, allows: fault(budget{kills: 1})},
	{name: "three calls, a node is dead, a request or an answer is lost", programs: three, dead: 0b1, allows: fault(budget{lost: 1})},
	{name: "three calls, a node is dead, a request is late", programs: three, dead: 0b1, allows: fault(budget{late: 1})},
	{name: "three calls, a node is dead, a subscription breaks", programs: three, dead: 0b1, allows: fault(budget{deaf: 1})},
	{name: "three calls, a node is dead, forced", programs: three, dead: 0b1, allows: fault(budget{forces: 1})},
	{name: "three calls, a node is dead, evicted", programs: three, dead: 0b1, allows: fault(budget{evictions: 1})},
	{name: "three calls, a node is dead, renewals", programs: three, dead: 0b1, allows: budget{renewals: 1}},
}

func TestEveryHistoryKeepsThePromises(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			switch {
			case race.Enabled:
				sc.most = 300
			case testing.Short():
				sc.most = 2000
			case !whole():
				sc.most = 8_000 // of the largest
			}
			r := prove(&sc)
			t.Log(sc.name, r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}

// whole reports whether all is searched, as make prove does, and not what takes a minute.
func whole() bool { return os.Getenv("PROVE") == "all" }

// longer take from seconds to minutes.
var longer = []scenario{
	{name: "two calls, renewals, late", programs: two, allows: lately(budget{renewals: 1})},
	{name: "two calls, clocks near, late", programs: two, clocks: near, allows: late},
	{name: "a node hangs, late", programs: two, allows: lately(fault(budget{hangs: 1}))},
	{name: "a request is late, and so are answers", programs: two, allows: lately(fault(budget{late: 1}))},
	{name: "a subscription breaks, late", programs: two, allows: lately(fault(budget{deaf: 1}))},
	{name: "evicted, late", programs: two, allows: lately(fault(budget{evictions: 1}))},
	{name: "evicted, renewals", programs: two, allows: fault(budget{evictions: 1, renewals: 1})},
	{name: "evicted, a node is dead", programs: two, dead: 0b1, allows: fault(budget{evictions: 1})},
	{name: "evicted twice", programs: two, allows: budget{evictions: 2, faults: 2}},
	{name: "not yet heard", programs: two, deaf: true},
	{name: "three tries, a node is dead, late", programs: calls(try, try, try), dead: 0b1, allows: late},
	{name: "three calls", programs: three},
}

func TestEveryHistoryOfTheLongScenariosKeepsThePromises(t *testing.T) {
	if !whole() {
		t.Skip("make prove takes the minutes")
	}
	all := slices.Clone(longer)
	for _, sc := range scenarios {
		if sc.programs == three && sc.allows.slow == 0 {
			sc.name, sc.allows = sc.name+", late", lately(sc.allows)
			all = append(all, sc)
		}
	}
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := prove(&sc)
			t.Log(sc.name, r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}
