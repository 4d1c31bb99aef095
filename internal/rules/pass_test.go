package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

func TestATurnPassesOnlyAsLongAsTheHoldIsWhatTheNextCallWouldBeGiven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Hold)
		after  time.Duration
		asks   time.Duration
		passes bool
	}{
		"at once":                        {nil, 0, lease, true},
		"just in time":                   {nil, RunFor - 1, lease, true},
		"too late":                       {nil, RunFor, lease, false},
		"for a longer lease":             {nil, 0, lease + 1, false},
		"for a shorter lease":            {nil, 0, lease - 1, false},
		"somebody has a Lease":           {func(h *Hold) { h.Depth = 1 }, 0, lease, false},
		"a fixed lease":                  {func(h *Hold) { h.Fixed = true }, 0, lease, false},
		"renewed as usual":               {func(h *Hold) { h.Renewed(t0, lease, 1) }, 0, lease, true},
		"extended":                       {func(h *Hold) { h.Renewed(t0, lease+1, 1) }, 0, lease, false},
		"an Extend went unheard":         {func(h *Hold) { h.Asks(lease+1, t0) }, 0, lease, false},
		"re-entered for longer":          {func(h *Hold) { h.AskFor(lease+1, false, t0) }, 0, lease, false},
		"dropped":                        {func(h *Hold) { h.Lease = 0 }, 0, lease, false},
		"released":                       {(*Hold).Release, 0, lease, false},
		"lost":                           {func(h *Hold) { h.Lose(Forced, t0, false) }, 0, lease, false},
		"no longer trusted":              {func(h *Hold) { h.TrustEnds = t0 }, 0, lease, false},
		"doubted":                        {func(h *Hold) { h.Doubted("", "me", 0, 0, t0) }, 0, lease, false},
		"a renewal is due after a while": {func(h *Hold) { h.RenewAt = t0.Add(time.Millisecond + 1) }, 0, lease, true},
	} {
		h := Begin(Term{lua.Claim, t0.Add(lua.Claim)}, lease, false, t0)
		if c.change != nil {
			c.change(&h)
		}
		if got := h.Passes(c.asks, RunFor, t0.Add(c.after)); got != c.passes {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheRecordIsToldOfATurnThatLasts(t *testing.T) {
	h := begun(lua.Claim)
	h.LeaseEnded(false, t0)
	h.Dropped = 1
	h.Pass(t0)
	h.LeaseGiven(t0)
	if got := after(h.SyncAt); got != syncWithin || h.Dropped != 0 {
		t.Fatalf("told after %v, %d dropped", got, h.Dropped)
	}
	h.Renewed(t0.Add(syncWithin), lease, 1)
	if !h.SyncAt.IsZero() {
		t.Fatal("told again")
	}
}

func TestATicketThatFollowsAnotherWaitsNoMore(t *testing.T) {
	w := Waiter{Lease: lease}
	w.Follows()
	if step := w.GivesUp(false); step.Do != GiveBack {
		t.Errorf("when it gives up, %v follows", step.Do)
	}
	if step := w.Told(&lua.TicketState{Status: lua.Granted, Grant: lua.Grant{Token: 9, Remaining: lease}}, 9, ClockPair{Sent: t0, At: 1}, t0, false); step.Do != Nothing {
		t.Errorf("after an answer that it was granted the lock, %v follows", step.Do)
	}
}

// A Lease was dropped, and then the other was unlocked while a renewal was under way.
func TestALeaseOnAHoldWhoseOthersWereDroppedIsRenewed(t *testing.T) {
	h := begun(lease)
	h.LeaseGiven(t0)
	h.LeaseDropped()
	h.LeaseEnded(false, t0)
	h.Renewed(t0, lease, 2)
	if !h.RenewAt.IsZero() {
		t.Fatal("a hold that has only dropped Leases is renewed")
	}
	h.LeaseGiven(t0)
	if !h.AskFor(lease, false, t0) {
		t.Fatal("a further Lease does not take the hold over")
	}
	if h.TakenOver(lease); h.RenewAt.IsZero() {
		t.Fatal("and is not renewed")
	}
}
