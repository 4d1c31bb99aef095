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

var scenarios = []scenario{
	{name: "two calls", programs: calls(lock, lock), allows: budget{slow: -1, lag: -1}},
	{name: "two calls, messages late", programs: calls(lock, lock), allows: budget{lag: -1}},
	{name: "two calls, answers late", programs: calls(lock, lock), allows: budget{slow: -1}},
	{name: "two calls, at once", programs: calls(lock, lock), allows: budget{}},
	{name: "three calls, answers at once", programs: calls(lock, lock, lock)},
}

func TestEveryHistoryKeepsThePromises(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := prove(&sc)
			t.Log(r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}

var long = []scenario{
	{name: "three calls, at once", programs: calls(lock, lock, lock)},
}

func TestEveryHistoryOfTheLongScenariosKeepsThePromises(t *testing.T) {
	if os.Getenv("MAJORITY_LONG") == "" {
		t.Skip("MAJORITY_LONG is not set")
	}
	for _, sc := range long {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := prove(&sc)
			t.Log(r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}
