package majority

import (
	"os"
	"strings"
	"testing"
)

var (
	lock = program{present: true}
	try  = program{present: true, bound: -1}
)

func calls(all ...program) (p [most]program) {
	copy(p[:], all)
	return p
}

// late lets answers and messages take their time. Requests always do.
var late = budget{slow: -1, lag: -1}

var two = calls(lock, lock)

// apart are clocks of nodes that differ by more than a claim.
var apart = [masters]int64{0, 10_000, 20_000}

// near are clocks of nodes that differ by less.
var near = [masters]int64{0, 1000, 2000}

// scenarios are searched to their ends.
var scenarios = []scenario{
	{name: "two calls", programs: two, allows: late},
	{name: "two tries", programs: calls(try, try), allows: late},
	{name: "a call and a try", programs: calls(lock, try), allows: late},
	{name: "two calls, one gives up", programs: two, allows: budget{giveUps: 1}},
	{name: "first start", programs: two, unmet: true, allows: late},
	{name: "a node is dead", programs: two, dead: 0b1, allows: late},
	{name: "a node dies", programs: two, allows: budget{deaths: 1, faults: 1}},
	{name: "a node is flushed", programs: two, allows: budget{flushes: 1, faults: 1}},
	{name: "a client is killed", programs: two, allows: budget{kills: 1, faults: 1}},
	{name: "a client reaches one node, another one two", programs: two, cuts: [most]uint8{0b110}, dead: 0b100, allows: budget{ticks: 1}},
	{name: "three calls, a node is dead", programs: calls(lock, lock, lock), dead: 0b1},
}

func TestEveryHistoryKeepsThePromises(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			if raceDetector || testing.Short() {
				sc.most = 2000
			}
			r := prove(&sc)
			t.Log(sc.name, r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}

// long reports whether all is searched, and not what takes a minute.
func long() bool { return os.Getenv("MAJORITY") == "all" }

// longer take minutes.
var longer = []scenario{
	{name: "a node restarts empty", programs: two, quick: true, allows: budget{restarts: 1, faults: 1}},
	{name: "a node restarts with old data", programs: two, quick: true, allows: budget{yesterdays: 1, faults: 1}},
	{name: "a node restarts with its data", programs: two, quick: true, allows: budget{intact: 1, faults: 1}},
	{name: "a request or an answer is lost", programs: two, allows: budget{lost: 1, faults: 1}},
	{name: "a request is late", programs: two, allows: budget{late: 1, faults: 1}},
	{name: "forced", programs: two, allows: budget{forces: 1, faults: 1}},
	{name: "a node forgets while a holder has all votes", programs: two, allows: budget{amnesias: 1, faults: 1}},
	{name: "two calls, both give up", programs: two, allows: budget{giveUps: 2}},
	{name: "two calls, renewals", programs: two, allows: budget{renewals: 1}},
	{name: "two nodes hang as all begins", programs: two, hung: 0b11},
	{name: "a node hangs", programs: two, allows: budget{hangs: 1, faults: 1}},
	{name: "two calls, clocks near", programs: two, clocks: near, allows: late},
	{name: "two calls, clocks apart", programs: two, clocks: apart},
	{name: "three calls, a node is dead, all late", programs: calls(lock, lock, lock), dead: 0b1, allows: late},
	{name: "three calls, a node is dead, another one is flushed", programs: calls(lock, lock, lock), dead: 0b1, allows: budget{flushes: 1, faults: 1}},
	{name: "three calls, a node is dead, one gives up", programs: calls(lock, lock, lock), dead: 0b1, allows: budget{giveUps: 1}},
	{name: "time passes", programs: two, allows: budget{ticks: 1}},
	{name: "a subscription breaks", programs: two, allows: budget{deaf: 1, faults: 1}},
	{name: "not yet heard", programs: two, deaf: true},
	{name: "three tries", programs: calls(try, try, try)},
	{name: "three calls", programs: calls(lock, lock, lock)},
}

func TestEveryHistoryOfTheLongScenariosKeepsThePromises(t *testing.T) {
	if !long() {
		t.Skip("MAJORITY=all is not set")
	}
	for _, sc := range longer {
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
