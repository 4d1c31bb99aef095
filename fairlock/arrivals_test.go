package fairlock

import (
	"slices"
	"testing"

	"github.com/fairlock/locks/internal/engine"
	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// comer is a call for the named lock that has yet to ask.
func comer(name string, r engine.Request) *attempt {
	a := &attempt{Call: engine.Call{Request: r}, Waiter: rules.Waiter{Try: r.Wait == 0}}
	a.Keys, _ = lua.NewKeys("fairlock", name)
	a.alone[0] = a
	return a
}

// waits is the request of a call that may wait.
var waits = engine.Request{Wait: -1}

func TestThoseWhoComeWhileOthersAreUnderWayAskInOneRequestInTheirOrder(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	first, all := comer("x", waits), []*attempt{comer("x", waits), comer("x", waits), comer("x", waits)}
	with, sends := l.arrive(first)
	if with != nil || !sends {
		t.Error("the first has company")
	}
	ours, sends := l.arrive(all[0])
	if ours == nil || !sends {
		t.Error("who comes while it is under way has none")
	}
	for _, a := range all[1:] {
		if with, sends := l.arrive(a); with != ours || sends {
			t.Error("who comes next asks for itself")
		}
	}
	if got := l.speaksFor(first, nil); !slices.Equal(got, []*attempt{first}) {
		t.Errorf("the first speaks for %d", len(got))
	}
	if got := l.speaksFor(all[0], ours); !slices.Equal(got, all) {
		t.Errorf("it speaks for %d, want 3 in their order", len(got))
	}
	if with, sends := l.arrive(comer("x", waits)); with == nil || with == ours || !sends {
		t.Error("who comes when they have departed is not asked for by anybody")
	}
	for range 3 {
		l.arrived(first)
	}
	if len(l.arrivals) != 0 {
		t.Error("the table outlives its requests")
	}
}

func TestACommonRequestIsOfOneLockAndOfNoMoreThanTheServerShouldDoAtOnce(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	l.arrive(comer("x", waits))
	if with, _ := l.arrive(comer("y", waits)); with != nil {
		t.Error("who comes to another lock has company")
	}
	tries, replicated := comer("x", engine.Request{}), comer("x", engine.Request{Wait: -1, Replicas: lua.Replicas{N: 1}})
	for range 2 { // with nobody to join, and with somebody
		for _, apart := range []*attempt{tries, replicated} {
			if with, sends := l.arrive(apart); with != nil || !sends {
				t.Error("one who has something else to ask has company")
			}
		}
		l.arrive(comer("x", waits))
	}
	requests := 1
	for range 3*mostTogether - 1 {
		if _, sends := l.arrive(comer("x", waits)); sends {
			requests++
		}
	}
	if requests < 3 || requests > 4 {
		t.Errorf("%d requests", requests)
	}
}

func TestACrowdWithABoundIsOneGroupUntilSomebodyJoinsWhoIsNotTurnedAwayWithIt(t *testing.T) {
	l := New(unreachable(t))
	defer l.Close()
	l.arrive(comer("x", waits))
	crowd, _ := l.arrive(comer("x", bounded(7)))
	for range 3 * mostTogether {
		if with, sends := l.arrive(comer("x", bounded(7))); with != crowd || sends {
			t.Fatal("one of the crowd asks for itself")
		}
	}
	if with, sends := l.arrive(comer("x", waits)); with != crowd || sends {
		t.Error("who comes next asks for itself")
	}
	if with, sends := l.arrive(comer("x", bounded(7))); with == crowd || !sends {
		t.Error("somebody joins behind a call that must not wait for long")
	}
}
