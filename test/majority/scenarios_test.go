package majority

import (
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
	{name: "two calls", programs: calls(lock, lock)},
}

func TestEveryHistoryKeepsThePromises(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			r := search(&sc)
			t.Log(r)
			if r.fault != nil {
				t.Errorf("%v\n%s", r.fault, strings.Join(r.history, "\n"))
			}
		})
	}
}
