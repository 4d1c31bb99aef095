package torture

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// endedAt gives a call contexts that ended at that time.
func endedAt(when int64, cause string) func(*call) {
	return func(c *call) { c.over, c.cause = at(when), cause }
}

// closedAt gives a call a Locker that was closed between from and to, and refused newcomers from
// drains on.
func closedAt(from, drains, to int64) func(*call) {
	return func(c *call) {
		c.desk = 7
		c.life.lockers = map[int]*closes{7: {how: "Shutdown", from: at(from), drains: at(drains), to: at(to)}}
	}
}

// stoodStill gives a call a process that stood still between two times.
func stoodStill(from, to int64) func(*call) {
	return func(c *call) { c.life.stills = append(c.life.stills, stretch{from: at(from), to: at(to)}) }
}

func TestAContextThatLivesLongerThanTheTrustIsObjectedTo(t *testing.T) {
	for name, test := range map[string]struct {
		lease *call
		wrong int
	}{
		"ended by Unlock":                    {had("A", 1, 0, 10).with(endedAt(11, whyNotHeld)), 0},
		"ended seconds after Unlock":         {had("A", 1, 0, 10).with(endedAt(2010, whyNotHeld)), 1},
		"lost in time":                       {had("A", 1, 0, 0).with(expired(900, 905)).with(endedAt(905, whyLost)), 0},
		"lost seconds late":                  {had("A", 1, 0, 0).with(expired(900, 5000)).with(endedAt(5000, whyLost)), 1},
		"lost late, standing still":          {had("A", 1, 0, 0).with(expired(900, 5000)).with(endedAt(5000, whyLost)).with(stoodStill(800, 4990)), 0},
		"lost late, still before":            {had("A", 1, 0, 0).with(expired(900, 5000)).with(endedAt(5000, whyLost)).with(stoodStill(100, 890)), 1},
		"never ended":                        {had("A", 1, 0, 10), 1},
		"never ended, killed":                {had("A", 1, 0, 10).with(killed(500, 900)), 0},
		"ended when closed":                  {had("A", 1, 0, 900).with(closedAt(400, 450, 500)).with(endedAt(499, whyClosed)), 0},
		"ended long after the close":         {had("A", 1, 0, 9000).with(closedAt(400, 450, 500)).with(endedAt(4000, whyClosed)), 1},
		"not ended between Unlock and death": {had("A", 1, 0, 10).with(func(c *call) { c.life.Killed = at(3000) }), 1},
	} {
		if wrong := outlived([]*call{test.lease}); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestTrustLastsForAsLongAsAContextSaysSo(t *testing.T) {
	late := had("A", 1, 0, 0).with(expired(900, 3000)).with(endedAt(3000, whyLost))
	next := had("B", 2, 1000, 1100)
	if wrong, _ := overlaps([]*call{late, next}, nil); len(wrong) != 1 {
		t.Errorf("it worked under its context while another had the lock: %q", wrong)
	}
	late.with(stoodStill(890, 2990))
	if wrong, _ := overlaps([]*call{late, next}, nil); len(wrong) != 0 {
		t.Errorf("nothing in its process ran: %q", wrong)
	}
}

func TestALeaseHadOfALockerThatWasClosedIsObjectedTo(t *testing.T) {
	refusal := had("A", 0, 600, 610).with(closedAt(400, 450, 500))
	within := had("A", 1, 470, 480).with(closedAt(400, 450, 500))
	within.how = nested
	for name, test := range map[string]struct {
		call  *call
		wrong int
	}{
		"before":               {had("A", 1, 300, 310).with(closedAt(400, 450, 500)), 0},
		"while it is closed":   {had("A", 1, 420, 430).with(closedAt(400, 450, 500)), 0},
		"while it drains":      {had("A", 1, 470, 480).with(closedAt(400, 450, 500)), 1},
		"nested, as it drains": {within, 0},
		"after it was closed":  {had("A", 1, 600, 610).with(closedAt(400, 450, 500)), 1},
		"refused":              {refusal, 0},
	} {
		if wrong := afterClose([]*call{test.call}); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
	outer := had("A", 1, 300, 490).with(closedAt(400, 450, 500))
	inner := had("A", 1, 470, 480).with(closedAt(400, 450, 500))
	inner.life = outer.life
	if wrong := afterClose([]*call{outer, inner}); len(wrong) != 0 {
		t.Errorf("re-entered by its named owner, as it drains: %q", wrong)
	}
	inner.desk++
	inner.life.lockers[inner.desk] = inner.life.lockers[outer.desk]
	if wrong := afterClose([]*call{outer, inner}); len(wrong) == 0 {
		t.Error("another Locker of the process has it: no objection")
	}
}

func TestACallMayBeEndedByItsOwnCallbackOnly(t *testing.T) {
	own, other := had("A", 0, 0, 0), had("A", 0, 0, 0)
	own.broke, own.antic = at(5), "OnQueued "+panics
	other.broke = at(5)
	if wrong := broken([]*call{own, other}); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	own.token = 1
	if wrong := broken([]*call{own}); len(wrong) != 1 {
		t.Errorf("it had the lock: %q", wrong)
	}
}

func TestALossThatNothingExplainsIsObjectedTo(t *testing.T) {
	lease := func() *call { return had("A", 1, 0, 0).with(expired(5000, 5000)) }
	fixed := lease()
	fixed.fixed = true
	for name, test := range map[string]struct {
		lease    *call
		troubles []*trouble
		wrong    int
	}{
		"nothing happened":        {lease(), nil, 1},
		"its connection was cut":  {lease(), []*trouble{{Kind: "cut", Seat: 0, From: at(4500), To: at(4500)}}, 0},
		"another's was":           {lease(), []*trouble{{Kind: "cut", Seat: 1, From: at(4500), To: at(4500)}}, 1},
		"long before":             {lease(), []*trouble{{Kind: "cut", Seat: 0, From: at(500), To: at(600)}}, 1},
		"another lock was spoilt": {lease(), []*trouble{{Kind: "hostile", Seat: everybody, From: at(4500), To: at(6000)}}, 1},
		"it stood still":          {lease().with(stoodStill(4500, 4900)), nil, 0},
		"it was to end":           {fixed, nil, 0},
		"it was not lost":         {had("A", 1, 0, 10), nil, 0},
		"its Unlock found out":    {had("A", 1, 0, 10).with(lostAtUnlock), nil, 1},
		"so it did, after a cut":  {had("A", 1, 0, 10).with(lostAtUnlock), []*trouble{{Kind: "cut", Seat: 0, From: at(5), To: at(5)}}, 0},
	} {
		if wrong := lostForNothing([]*call{test.lease}, test.troubles); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestALossThatNothingExplainsIsToldWithWhatItsProcessLoggedAtThatTime(t *testing.T) {
	lost := had("A", 1, 0, 0).with(expired(5000, 5000))
	lost.life.journal = filepath.Join(t.TempDir(), "p")
	f, err := openLogs(orders{Journal: lost.life.journal})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	logs := slog.NewTextHandler(f, nil)
	for says, after := range map[string]int64{"long before": 500, "meanwhile": 4900, "long after": 9000} {
		if err := logs.Handle(t.Context(), slog.NewRecord(time.Unix(0, at(after)), slog.LevelWarn, says, 0)); err != nil {
			t.Fatal(err)
		}
	}
	before := &trouble{Kind: "freeze", Seat: 0, From: at(500), To: at(600)}
	wrong := lostForNothing([]*call{lost}, []*trouble{before})
	if len(wrong) != 1 || !strings.Contains(wrong[0], "meanwhile") || strings.Contains(wrong[0], "long") || !strings.Contains(wrong[0], "freeze") {
		t.Errorf("%q", wrong)
	}
}

// lostAtUnlock is of a call whose Unlock found out that the lock was lost, which it still trusted.
func lostAtUnlock(c *call) { c.sure, c.outcome = true, whyLost }

func TestAFailureThatNothingExplainsIsObjectedTo(t *testing.T) {
	failed := func(why string) *call {
		return had("A", 0, 60_000, 60_010).with(func(c *call) { c.why = why })
	}
	cut := func(when int64) []*trouble { return []*trouble{{Kind: "cut", From: at(when), To: at(when)}} }
	for name, test := range map[string]struct {
		call     *call
		troubles []*trouble
		wrong    int
	}{
		"nothing happened":           {failed("EOF"), nil, 1},
		"its connection was cut":     {failed("EOF"), cut(59_900), 0},
		"long before":                {failed("EOF"), cut(10), 1},
		"it stood still":             {failed("EOF").with(stoodStill(59_000, 60_005)), nil, 0},
		"its Locker was closed":      {failed("EOF").with(closedAt(60_000, 60_001, 60_002)), nil, 0},
		"it was refused":             {failed(whyHeld), nil, 0},
		"somebody evicted it":        {failed(whyEvicted), nil, 0},
		"too few nodes could answer": {failed("2 of 3 nodes: " + noMajority), nil, 0},
		"it has a place":             {failed("EOF").with(func(c *call) { c.queued = true }), nil, 0},
	} {
		if wrong := forNothing([]*call{test.call}, test.troubles); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestWhatPassesIsWaitedFor(t *testing.T) {
	failed := func(queued bool, why string) *call {
		return had("A", 0, 0, 10).with(func(c *call) { c.queued, c.why = queued, why })
	}
	calls := []*call{failed(true, whyTimeout), failed(false, "NOREPLICAS"), failed(true, "NOREPLICAS")}
	if wrong := impatient(calls); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	unlocked := func(why string, when int64) *call {
		return had("A", 1, 0, 10).with(func(c *call) { c.outcome, c.until, c.released = why, at(900), at(when) })
	}
	leases := []*call{unlocked("", 11), unlocked(whyTimeout, 11), unlocked("MISCONF", 950), unlocked("MISCONF", 11)}
	if wrong := unrepeated(leases); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	if wrong := unrepeated([]*call{unlocked("MISCONF", 11).with(closedAt(5, 6, 7))}); len(wrong) != 0 {
		t.Errorf("a closed Locker repeats little: %q", wrong)
	}
}

func TestATicketThatOutlivesItsCallIsAGhost(t *testing.T) {
	refused := func() *call { return had("A", 0, 0, 4) } // at 4 ms of the journal's time
	for name, test := range map[string]struct {
		call    *call
		scripts [][][]string
		ghosts  int
	}{
		"it leaves":              {refused(), [][][]string{script(wait(2, "A:1:1000::p-1")), {{"LREM", "fairlock:queue:{x}", "1", "2:A:1:1000::p-1"}, clockOf(6)}}, 0},
		"it stays in line":       {refused(), [][][]string{hold(1, b), script(wait(2, "A:1:1000::p-1")), {clockOf(60_000)}}, 1},
		"it leaves late":         {refused(), [][][]string{hold(1, b), script(wait(2, "A:1:1000::p-1")), {clockOf(60_000)}, script([][]string{{"LREM", "fairlock:queue:{x}", "1", "2:A:1:1000::p-1"}})}, 1},
		"it holds the lock":      {refused(), [][][]string{hold(2, "A:1:1000::p-1"), {clockOf(60_000)}}, 1},
		"its Locker was closed":  {refused().with(closedAt(0, 0, 0)), [][][]string{hold(2, "A:1:1000::p-1"), {clockOf(60_000)}}, 0},
		"its call is not over":   {had("A", 0, 0, 0).with(func(c *call) { c.ended = 0 }), [][][]string{hold(2, "A:1:1000::p-1"), {clockOf(60_000)}}, 0},
		"its process was killed": {refused().with(func(c *call) { c.life.Killed = 5e6 }), [][][]string{hold(2, "A:1:1000::p-1"), {clockOf(60_000)}}, 0},
	} {
		c := test.call
		c.op, c.life.Process = 1, "p"
		if c.ended != 0 {
			c.ended = 4e6
		}
		o := newOrder(map[string]*life{"p": c.life}, []*call{c}, nil)
		for _, words := range slices.Concat(test.scripts...) {
			o.show(words)
		}
		o.end(o.now)
		if len(o.ghosts) != test.ghosts {
			t.Errorf("%s: %q", name, o.ghosts)
		}
	}
}

func TestALockThatIsHeldForMinutesByNobodyIsObjectedTo(t *testing.T) {
	alive, dead := had("A", 0, 0, 0), had("B", 0, 0, 0)
	alive.life.Process, dead.life.Process, dead.life.Killed = "p", "k", 1
	alive.op, dead.op = 1, 1
	o := newOrder(map[string]*life{"p": alive.life, "k": dead.life}, []*call{alive, dead}, nil)
	wrong := nobodys(o, map[string][]string{"x": {"A:1:90000::p-1"}, "y": {"B:1:90000::k-1"}})
	if len(wrong) != 1 {
		t.Fatalf("%q", wrong)
	}
}

func TestAGrantThatItsCallDoesNotHearIsObjectedTo(t *testing.T) {
	const ticket = "A:1:5000::p-1"
	for name, test := range map[string]struct {
		heard    int64 // ms
		troubles []*trouble
		wrong    int
	}{
		"at once":                   {4, nil, 0},
		"when its claim ran out":    {3004, nil, 1},
		"for its messages are torn": {3004, []*trouble{{Kind: "tear", From: 1, To: 3000e6}}, 1},
		"for it was cut off":        {3004, []*trouble{{Kind: "freeze", From: 1, To: 2500e6}}, 0},
	} {
		c := had("A", 1, 0, 0)
		c.op, c.life.Process, c.ended = 1, "p", test.heard*1e6
		o := newOrder(map[string]*life{"p": c.life}, []*call{c}, test.troubles)
		for _, words := range slices.Concat(script(wait(2, ticket)), script(pop(), hold(3, ticket)), [][]string{clockOf(3003)}, script(free(), hold(3003, b))) {
			o.show(words)
		}
		if len(o.unheard) != test.wrong {
			t.Errorf("%s: %q", name, o.unheard)
		}
	}
}

func TestAWaiterKeptFromAFreeLockIsObjectedTo(t *testing.T) {
	record := record(crew + "p")
	for name, test := range map[string]struct {
		again int // when another call has the lock again, in ms
		loss  bool
		wrong int
	}{
		"for a moment":                    {12, false, 0},
		"for seconds":                     {9000, false, 1},
		"for seconds after a loss":        {6000, true, 0},
		"for many seconds after all that": {20000, true, 1},
	} {
		c := &call{life: &life{Process: "p"}, lock: crew + "p", how: waits, began: 5e6, ended: 20001e6}
		o := newOrder(nil, nil, nil)
		if test.loss {
			o.troubles = append(o.troubles, &trouble{Kind: "loss", Seat: everybody, From: 1e6, To: 9e6})
		}
		hold := func(at int) []string {
			words := hold(at, a)[0]
			words[1] = record
			return words
		}
		for _, words := range [][]string{hold(1), clockOf(10), {"DEL", record}, hold(test.again)} {
			o.show(words)
		}
		if wrong := o.kept([]*call{c}); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestAPulseShowsWhenAProcessStoodStill(t *testing.T) {
	l := &life{stills: []stretch{{from: at(0), to: at(100)}, {from: at(200), to: at(400)}}}
	if got := time.Duration(l.stood(at(50), at(300))); got != 150*time.Millisecond {
		t.Fatalf("%v", got)
	}
}
