package faults

import (
	"testing"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/faultproxy"
	"github.com/fairlock/locks/test/world"
)

// Evict looks at 500 places of a line at a time.
func TestAWaiterIsEvictedThoughItsLineMovesUpWhileItIsLookedFor(t *testing.T) {
	f := newFaulty(t)
	admin, user := f.Patient(), f.Beside()
	f.Unlocks(admin.Locks("y"))
	lease := f.Beside().Locks("x")
	var first, rest []*world.Wait
	for i := range 60 { // more than two pages have in common
		first = append(first, user.Queues("x", i+1))
	}
	for range 500 {
		rest = append(rest, user.Asks(background, "x"))
	}
	f.Until("all wait", func() bool { return f.Line("x") == 560 })
	state, err := user.Inspect(background, "x")
	f.Must(err)
	inspects := f.Verb("inspect")
	second := f.Once(func(args []string) bool { return inspects(args) && args[len(args)-2] == "450" }, faultproxy.HoldRequest())
	evicted := make(chan error, 1)
	go func() { evicted <- admin.Interface.(*fairlock.Locker).Evict(background, "x", state.Waiters[504].ID) }()
	second.WaitHit(f, 1, world.Patience)
	for _, w := range first {
		w.Cancel()
	}
	f.Until("they have left", func() bool { return f.Line("x") == 500 })
	second.Release()
	if err := <-evicted; err != nil {
		f.Error(err)
	}
	for _, w := range rest {
		w.Cancel()
	}
	for _, w := range append(first, rest...) {
		_ = w.End()
	}
	f.Unlocks(lease)
	f.Until("all have left", func() bool { return f.Line("x") == 0 && f.Holder("x") == 0 })
	f.nobody("x")
}
