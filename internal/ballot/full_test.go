package ballot

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/rules"
)

func TestACallThatAMajorityHasLetIntoLineIsNotTurnedAwayByALineThatWasFull(t *testing.T) {
	now := time.Now()
	for name, order := range map[string][]int{"full first": {2, 0, 1}, "full last": {0, 1, 2}} {
		b := New(3, time.Second, 1, now)
		for _, i := range order {
			a := &Answer{Status: Waits, Now: 1, Place: 5, Position: 1}
			if i == 2 {
				a = &Answer{Status: Full, Now: 1}
			}
			b.Enter(i)
			b.Entered(i, false)
			b.Answered(i, a, rules.ClockPair{At: 1, Sent: now}, now)
		}
		there := func(int) bool { return false }
		if v := b.Judge(now, there); v.Do != Wait {
			t.Errorf("%s: %+v", name, v)
		}
		if due := b.Due(there); !slices.Contains(due, 2) {
			t.Errorf("%s: nodes %d are asked again", name, due)
		}
		if place, _ := b.Enter(2); place != 5 {
			t.Errorf("%s: for place %d", name, place)
		}
		b.Entered(2, false)
		if v := b.Judge(now, func(i int) bool { return i == 0 }); v.Do != Wait {
			t.Errorf("%s: once another node is away: %+v", name, v)
		}
	}
}
