package torture

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/test/redistest"
)

// inLine makes a call one that knew at that time that it stood in line.
func inLine(when int64) func(*call) {
	return func(c *call) { c.queued, c.stood = true, at(when) }
}

// asked is a call that began and had its lock at those times, in ms, with the token of its grant.
func asked(owner string, began, from, to int64) *call {
	return had(owner, at(from)/1000, from, to).with(func(c *call) { c.began = at(began) })
}

// harm is a trouble of a node, in ms.
func harm(node, seat int, kind string, from, to int64) *trouble {
	return &trouble{Kind: kind, Seat: seat, Node: node, From: at(from), To: at(to)}
}

func never(*trouble) time.Duration { return 0 }

func TestASeatIsWithoutAMajorityWhileTooManyOfItsNodesAreInTroubleAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		troubles []*trouble
		from, to int64 // 0, 0: never
	}{
		"one node":            {[]*trouble{harm(1, everybody, "", 0, 100)}, 0, 0},
		"two nodes":           {[]*trouble{harm(1, everybody, "", 0, 100), harm(2, everybody, "", 50, 150)}, 50, 100},
		"twice one node":      {[]*trouble{harm(1, everybody, "", 0, 100), harm(1, everybody, "", 50, 150)}, 0, 0},
		"one after the other": {[]*trouble{harm(1, everybody, "", 0, 100), harm(2, everybody, "", 101, 150)}, 0, 0},
		"one of its own":      {[]*trouble{harm(1, everybody, "", 0, 100), harm(2, 3, "", 20, 80)}, 20, 80},
		"one of another seat": {[]*trouble{harm(1, everybody, "", 0, 100), harm(2, 4, "", 20, 80)}, 0, 0},
	} {
		all := outages(3, test.troubles, 2, 3, never)
		switch {
		case test.to == 0 && len(all) != 0:
			t.Errorf("%s: %+v", name, all[0])
		case test.to != 0 && (len(all) != 1 || all[0].From != at(test.from) || all[0].To != at(test.to) || all[0].Seat != 3):
			t.Errorf("%s: %+v", name, all)
		}
	}
	after := func(*trouble) time.Duration { return 10 * time.Millisecond }
	if all := outages(3, []*trouble{harm(1, 3, "", 0, 100), harm(2, 3, "", 101, 150)}, 2, 3, after); len(all) != 1 {
		t.Errorf("a node that was in trouble just before counts no more: %+v", all)
	}
	if all := outages(3, []*trouble{{Kind: "SIGSTOP", Seat: 3}, {Kind: "SIGSTOP", Seat: 1}}, 2, 3, never); len(all) != 1 {
		t.Errorf("a trouble of the seat itself: %+v", all)
	}
}

func TestWhoeverIsServedBeforeAnotherThatStoodInLineWhenItBeganIsObjectedTo(t *testing.T) {
	first := func() *call { return asked("A", 0, 900, 910).with(inLine(10)) }
	none := map[int][]*trouble{}
	for name, test := range map[string]struct {
		calls    []*call
		troubles map[int][]*trouble
		wrong    int
	}{
		"in order":                 {[]*call{first(), asked("B", 200, 920, 930)}, none, 0},
		"overtaken":                {[]*call{first(), asked("B", 200, 300, 310)}, none, 1},
		"by one who began before":  {[]*call{first(), asked("B", 5, 300, 310)}, none, 0},
		"by one within":            {[]*call{first(), asked("B", 200, 300, 310).with(func(c *call) { c.how = nested })}, none, 0},
		"while it stood nowhere":   {[]*call{asked("A", 0, 900, 910), asked("B", 200, 300, 310)}, none, 0},
		"when it had given up":     {[]*call{first().with(func(c *call) { c.limit = at(250) - at(0) }), asked("B", 200, 300, 310)}, none, 0},
		"when it was dead":         {[]*call{first().with(killed(250, 0)), asked("B", 200, 300, 310)}, none, 0},
		"without a majority":       {[]*call{first(), asked("B", 200, 300, 310)}, map[int][]*trouble{0: {{Kind: "no majority", From: at(100), To: at(400)}}}, 0},
		"on another lock":          {[]*call{first(), asked("B", 200, 300, 310).with(func(c *call) { c.lock = "b" })}, none, 0},
		"when its Locker closed":   {[]*call{first().with(closing3(250)), asked("B", 200, 300, 310)}, none, 0},
		"after a process's trance": {[]*call{first().with(func(c *call) { c.life.stills = []stretch{{from: at(100), to: at(400)}} }), asked("B", 200, 300, 310)}, none, 0},
	} {
		if wrong, _ := overtaken(test.calls, test.troubles); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// closing3 has a call's Locker closed at that time.
func closing3(when int64) func(*call) {
	return func(c *call) {
		c.desk = 3
		c.life.lockers = map[int]*closes{3: {from: at(when)}}
	}
}

func TestAFreeLockWithSomebodyInLineIsObjectedToAfterAWhile(t *testing.T) {
	calls := func(next int64) []*call {
		return []*call{asked("A", 0, 0, 100), asked("B", 50, next, next+1).with(inLine(60))}
	}
	if wrong, longest := idle(calls(3000), nil, nil); len(wrong) != 0 || longest != 2890*time.Millisecond {
		t.Errorf("%q, %v", wrong, longest)
	}
	if wrong, _ := idle(calls(9000), nil, nil); len(wrong) != 1 {
		t.Errorf("nobody objects: %q", wrong)
	}
	if wrong, _ := idle(calls(9000), map[int][]*trouble{0: {{Kind: "no majority", From: at(200), To: at(5000)}}}, nil); len(wrong) != 0 {
		t.Errorf("it had no majority: %q", wrong)
	}
	if wrong, _ := idle(calls(9000), nil, []*trouble{{Kind: "kill", Seat: everybody, From: at(200), To: at(5000)}}); len(wrong) != 0 {
		t.Errorf("somebody dead had the lock: %q", wrong)
	}
}

func TestTheWidestGapIsThatOfTheReleasesInItsTime(t *testing.T) {
	all := handovers([]*call{
		asked("A", 0, 0, 100), asked("B", 50, 103, 200), asked("C", 60, 290, 300), asked("D", 400, 500, 510), asked("E", 450, 511, 512),
	})
	if gap, n := widest(all, at(90), at(210)); gap != 90*time.Millisecond || n != 2 {
		t.Errorf("%v of %d", gap, n)
	}
	if gap, n := widest(all, at(210), at(600)); gap != time.Millisecond || n != 1 {
		t.Errorf("nobody waited for D's lock, and E had it at once: %v of %d", gap, n)
	}
}

func TestATicketThatStaysAtANodeAfterItsCallIsAGhost(t *testing.T) {
	const ticket = "client:7:1000::p-7"
	for name, test := range map[string]struct {
		from, to int64
		call     *call
		troubles []*trouble
		ghosts   int
	}{
		"gone at once":         {0, 200, had("A", 1, 0, 100), nil, 0},
		"there for long":       {0, 60_000, had("A", 1, 0, 100), nil, 1},
		"of a dead process":    {0, 60_000, had("A", 1, 0, 0).with(killed(100, 100)), nil, 0},
		"cut off from it":      {0, 60_000, had("A", 1, 0, 100), []*trouble{harm(2, 0, "refuse", 100, 59_000)}, 0},
		"cut off from another": {0, 60_000, had("A", 1, 0, 100), []*trouble{harm(1, 0, "refuse", 100, 59_000)}, 1},
		"in yesterday's data":  {20_000, 30_000, had("A", 1, 0, 100), []*trouble{harm(2, everybody, "killed, restarted "+yesterday, 19_000, 20_000)}, 0},
		"for ever in it":       {20_000, 60_000, had("A", 1, 0, 100), []*trouble{harm(2, everybody, "killed, restarted "+yesterday, 19_000, 20_000)}, 1},
		"nobody's":             {0, 100, nil, nil, 1},
	} {
		w := &watch{seen: map[sight][]stretch{{2, "a", ticket}: {{from: at(test.from), to: at(test.to)}}}}
		calls := map[string]*call{}
		if test.call != nil {
			calls["p-7"] = test.call
		}
		if wrong, _ := w.haunting(calls, test.troubles); len(wrong) != test.ghosts {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestTheWatchSeesWhoStandsAtANode(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	rdb.ZAdd(ctx, voteKey("queue", "a"), redis.Z{Score: 1, Member: "x:1:1000::p-1"}, redis.Z{Score: 2, Member: "x:2:1000::p-2"})
	rdb.HSet(ctx, voteKey("lock", "a"), "ticket", "x:3:1000::p-3")
	w := &watch{seen: make(map[sight][]stretch)}
	w.look(2, rdb, "a")
	w.look(2, rdb, "a")
	for _, ticket := range []string{"x:1:1000::p-1", "x:2:1000::p-2", "x:3:1000::p-3"} {
		if all := w.seen[sight{2, "a", ticket}]; len(all) != 1 || all[0].to <= all[0].from {
			t.Errorf("%s: %+v", ticket, all)
		}
	}
	w.saw(sight{2, "a", "x:1:1000::p-1"}, now()+int64(time.Minute))
	if all := w.seen[sight{2, "a", "x:1:1000::p-1"}]; len(all) != 2 {
		t.Errorf("it came back after a minute: %+v", all)
	}
}

func TestOnlyAForceExcusesTwoOwnersAndOnlyATakingExcusesAnEviction(t *testing.T) {
	calls := []*call{had("A", 1, 0, 100), had("B", 2, 50, 150)}
	l := &life{Process: "q"}
	h := &history{taken: []*robbery{{life: l, how: "ForceUnlock", from: at(40), to: at(45)}}}
	if wrong, allowed := overlaps(calls, h.forced()); len(wrong) != 0 || len(allowed) != 1 {
		t.Errorf("%q, %q", wrong, allowed)
	}
	h.taken[0].how = "Evict"
	if wrong, _ := overlaps(calls, h.forced()); len(wrong) != 1 {
		t.Errorf("an eviction ends no hold: %q", wrong)
	}
	gone := &call{life: l, how: waits, queued: true, began: at(0), ended: at(50), why: whyEvicted}
	if wrong := impatient(h.unevicted([]*call{gone})); len(wrong) != 0 {
		t.Errorf("it was evicted: %q", wrong)
	}
	h.taken[0].from, h.taken[0].to = at(60), at(70)
	if wrong := impatient(h.unevicted([]*call{gone})); len(wrong) != 1 {
		t.Errorf("nobody had evicted it yet: %q", wrong)
	}
}

func TestAForceThatFailsThoughItsProcessHadAMajorityIsObjectedTo(t *testing.T) {
	l := &life{Process: "p", Seat: 1}
	h := &history{taken: []*robbery{
		{life: l, how: "Evict", from: at(0), to: at(10), why: "WRONGTYPE"},
		{life: l, how: "Evict", from: at(20), to: at(30)},
		{life: l, how: "Evict", from: at(40), to: at(50), why: "1 of 3 nodes: " + noMajority},
	}}
	if wrong := h.failed(nil); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	if wrong := h.failed([]*trouble{{Kind: "no majority", Seat: 1, From: at(0), To: at(20)}}); len(wrong) != 0 {
		t.Errorf("it had none: %q", wrong)
	}
}

func TestALeaseWithoutARenewalIsJudgedByWhatWaitersHave(t *testing.T) {
	short, long := had("A", 1, 0, 600), had("A", 2, 0, 5000)
	young, renewed := byAge([]*call{short, long})
	if len(young) != 1 || young[0] != short || len(renewed) != 1 || renewed[0] != long {
		t.Errorf("young %v, renewed %v", young, renewed)
	}
}
