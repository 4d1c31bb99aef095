package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

// at turns ms of the test's own into a time.
func at(ms int64) int64 { return int64(time.Hour) + ms*int64(time.Millisecond) }

// had returns a lease of owner, asked for and given at from and unlocked at to, in ms.
func had(owner string, token, from, to int64) *call {
	return &call{
		life: &life{Process: "p"}, lock: "a", how: waits, began: at(from), ended: at(from), owner: owner, token: token,
		until: at(to), given: at(to), sure: true, released: at(to) + 1,
	}
}

// with changes a lease.
func (c *call) with(change func(*call)) *call {
	change(c)
	return c
}

// killed has a lease's process die at that time, while the lease lasts until until.
func killed(when, until int64) func(*call) {
	return func(c *call) {
		c.life = &life{Process: "k", Killed: at(when), Dead: at(when)}
		c.until, c.given, c.sure, c.released = at(until), 0, false, 0
	}
}

// expired has a lease's process stand still, and find the lease lost at that time.
func expired(until, when int64) func(*call) {
	return func(c *call) {
		c.until, c.gone, c.given, c.sure, c.outcome = at(until), at(when), at(when), false, whyLost
	}
}

// histories are histories of one lock. Each says whether the judge of trust and tokens should
// accept it, and whether porcupine should.
var histories = map[string]struct {
	calls   []*call
	losses  []loss
	trust   bool // trust.go accepts it
	porcine bool // model.go accepts it
}{
	"one after the other":               {[]*call{had("A", 1, 0, 10), had("B", 2, 11, 20)}, nil, true, true},
	"two at once":                       {[]*call{had("A", 1, 0, 10), had("B", 2, 9, 20)}, nil, false, false},
	"two of one owner":                  {[]*call{had("A", 1, 0, 10), had("A", 1, 5, 20), had("B", 2, 21, 22)}, nil, true, true},
	"one within another's":              {[]*call{had("A", 1, 0, 30), had("A", 1, 5, 10), had("B", 2, 20, 22)}, nil, false, false},
	"an old token":                      {[]*call{had("A", 2, 0, 10), had("B", 1, 11, 20)}, nil, false, false},
	"the same token":                    {[]*call{had("A", 2, 0, 10), had("B", 2, 11, 20)}, nil, false, false},
	"after the lease of a killed one":   {[]*call{had("A", 1, 0, 0).with(killed(50, 10)), had("B", 2, 11, 20)}, nil, true, true},
	"within the lease of a live one":    {[]*call{had("A", 1, 0, 0).with(expired(30, 50)), had("B", 2, 11, 20)}, nil, false, false},
	"while one stands still":            {[]*call{had("A", 1, 0, 0).with(expired(10, 50)), had("B", 2, 11, 20)}, nil, true, true},
	"after another's death":             {[]*call{had("A", 1, 0, 0).with(killed(9, 100)), had("B", 2, 11, 20)}, nil, true, true},
	"a call that never returns":         {[]*call{had("A", 1, 0, 10), {life: &life{}, lock: "a", began: at(5)}, had("B", 2, 11, 20)}, nil, true, true},
	"an unlock that is never confirmed": {[]*call{had("A", 1, 0, 10).with(func(c *call) { c.outcome = whyTimeout }), had("B", 2, 500, 510)}, nil, true, true},
	"two at once when data was lost":    {[]*call{had("A", 1, 0, 100), had("B", 2, 50, 150)}, []loss{{From: at(20), To: at(30)}}, true, true},
	"two at once before data was lost":  {[]*call{had("A", 1, 0, 100), had("B", 2, 15, 150)}, []loss{{From: at(20), To: at(30)}}, false, false},
	"two at once long after data was lost": {
		[]*call{had("A", 1, 0, 2000), had("B", 2, 50, 2000)}, []loss{{From: at(20), To: at(30)}}, false, false,
	},
	"a token of before the loss": {[]*call{had("A", 2, 0, 10), had("B", 1, 50, 60)}, []loss{{From: at(20), To: at(30)}}, false, false},
}

func TestTheJudgeOfTrustSeesEveryOverlapAndEveryOldToken(t *testing.T) {
	for name, h := range histories {
		wrong, _ := overlaps(leasesOf(h.calls), h.losses)
		wrong = append(wrong, disorder(leasesOf(h.calls))...)
		if (len(wrong) == 0) != h.trust {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestPorcupineRefusesWhatALockWithLeasesCannotDo(t *testing.T) {
	for name, h := range histories {
		if _, wrong := linearizable(h.calls, h.losses, time.Minute); (len(wrong) == 0) != h.porcine {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func leasesOf(calls []*call) []*call { return (&history{calls: calls}).leases() }

func TestALossExcusesOnlyWhatItIsCountedFor(t *testing.T) {
	h := histories["two at once when data was lost"]
	if wrong, allowed := overlaps(h.calls, h.losses); len(wrong) != 0 || len(allowed) != 1 {
		t.Errorf("%q, %q", wrong, allowed)
	}
}

func TestTheModelLetsNobodyReleaseWhatIsNotHis(t *testing.T) {
	m := model{token: 1, owner: "A", held: []lease{{0, "A", 1}}}
	if ok, _ := m.next(step{action: release, lease: 7}); ok {
		t.Error("a stranger released it")
	}
	_, m = m.next(step{action: release, lease: 0})
	if ok, _ := m.next(step{action: release, lease: 0}); ok {
		t.Error("it was released twice")
	}
}

func TestLongHistoriesAreCutWhereTheLockIsFreeAndNothingIsForgottenThere(t *testing.T) {
	var calls []*call
	for i := range int64(5 * pieceLength) {
		calls = append(calls, had("A", i+1, 10*i, 10*i+5))
	}
	pieces, wrong := linearizable(calls, nil, time.Minute)
	if pieces != 5 || len(wrong) != 0 {
		t.Fatalf("%d pieces, %q", pieces, wrong)
	}
	calls[3*pieceLength].token = 1 // its first owner had it two pieces before
	calls[3*pieceLength].owner = "B"
	if _, wrong = linearizable(calls, nil, time.Minute); len(wrong) != 1 {
		t.Fatalf("%q", wrong)
	}
}

func TestWhatPorcupineCannotDecideInTimeIsNotFine(t *testing.T) {
	calls := []*call{had("A", 1, 0, 10), had("B", 2, 5, 20)}
	for range 60 { // each of these may be anywhere
		calls = append(calls, &call{life: &life{}, lock: "a", began: at(0)})
	}
	if _, wrong := linearizable(calls, nil, 10*time.Millisecond); len(wrong) != 1 || !strings.Contains(wrong[0], "not decided") {
		t.Fatalf("%q", wrong)
	}
}

func TestACleanUnlockOfALostLeaseIsObjectedTo(t *testing.T) {
	c := had("A", 1, 0, 0).with(expired(10, 50))
	if wrong := unclean([]*call{c}); len(wrong) != 0 {
		t.Errorf("it said that it was lost: %q", wrong)
	}
	c.outcome = ""
	if wrong := unclean([]*call{c}); len(wrong) != 1 {
		t.Errorf("it said nothing: %q", wrong)
	}
}

func TestTheResourceRefusesOldTokensAndItsCounterShowsAnOverlap(t *testing.T) {
	r := newResource(t)
	d, err := openDesk(r.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer d.conn.Close()
	ask := func(verb string, token int64, value int) (int, bool) {
		t.Helper()
		value, fresh, err := d.ask(request{Verb: verb, Lock: "a", Process: "p", Token: token, Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return value, fresh
	}
	ask("read", 5, 0)
	ask("write", 5, 1)
	before, _ := ask("read", 9, 0)
	if _, fresh := ask("write", 5, 2); fresh {
		t.Error("an old token wrote")
	}
	if _, fresh := ask("read", 5, 0); fresh {
		t.Error("an old token read")
	}
	ask("write", 9, before+1)
	if sum, wrong := r.totals(); len(wrong) != 0 || sum.accepted != 2 || sum.refused != 1 {
		t.Errorf("%+v, %q", sum, wrong)
	}
	ask("write", 9, before+1) // as if two workers had read at the same time
	if _, wrong := r.totals(); len(wrong) != 1 {
		t.Errorf("an update was lost, and nobody noticed: %q", wrong)
	}
}

func TestAnAcceptedStaleWriteIsObjectedTo(t *testing.T) {
	if wrong := stale([]written{{"a", "p", 5}, {"b", "p", 1}, {"a", "q", 9}, {"a", "p", 5}}); len(wrong) != 1 {
		t.Fatalf("%q", wrong)
	}
}

func TestAWriteThatNobodyGotAnAnswerToIsObjectedToUnlessItsProcessWasKilled(t *testing.T) {
	for name, test := range map[string]struct {
		written, acks int
		killed        int64
		wrong         int
	}{
		"all answered":            {3, 3, 0, 0},
		"one unanswered":          {3, 2, 0, 1},
		"one unanswered, killed":  {3, 2, 7, 0},
		"many unanswered, killed": {30, 2, 7, 1},
		"one made up":             {3, 4, 7, 1},
	} {
		r := &resource{written: slices.Repeat([]written{{"a", "p", 5}}, test.written)}
		h := &history{acks: map[string]int{"p": test.acks}, lives: map[string]*life{"p": {Process: "p", Killed: test.killed}}}
		if wrong := r.uncounted(h, hands); len(wrong) != test.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestAWriteRefusedToAHolderIsObjectedToUnlessDataWasLost(t *testing.T) {
	all := []barred{{had("A", 1, 0, 900), at(500)}}
	if wrong := refusedFresh(all, nil); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	if wrong := refusedFresh(all, []loss{{From: at(100), To: at(200)}}); len(wrong) != 0 {
		t.Errorf("data was lost meanwhile: %q", wrong)
	}
	if wrong := refusedFresh(all, []loss{{From: at(-900), To: at(-800)}}); len(wrong) != 1 {
		t.Errorf("data was lost before: %q", wrong)
	}
}

func TestEveryKeyThatOutlivesItsKindIsALeak(t *testing.T) {
	for key, test := range map[string]struct {
		left  time.Duration
		leaks int
		wait  time.Duration
	}{
		"fairlock:lock:{a}":    {leaseTime, 0, leaseTime},
		"fairlock:lock:{b}":    {2 * leaseTime, 1, 0},
		"fairlock:queue:{a}":   {time.Hour, 1, 0},
		"fairlock:waiters:{a}": {-1, 1, 0},
		"fairlock:waiters:{b}": {time.Minute, 0, time.Minute},
		"fairlock:token:{a}":   {lua.TokenTTL, 0, 0},
		"fairlock:token:{b}":   {-1, 1, 0},
		"fairlock:other:{a}":   {time.Second, 1, 0},

		"fairlock:plain:lock:{plain}":    {leaseTime, 0, leaseTime},
		"fairlock:plain:lock:{crew-p0}":  {2 * leaseTime, 1, 0},
		"fairlock:plain:token:{crew-p0}": {lua.TokenTTL, 0, 0},
		"other":                          {time.Second, 1, 0},
	} {
		if wrong, wait := leaked(map[string]time.Duration{key: test.left}); len(wrong) != test.leaks || wait != test.wait {
			t.Errorf("%s for %v: %q, wait %v", key, test.left, wrong, wait)
		}
	}
}

func TestACallThatEndsLongAfterItsLimitIsObjectedToUnlessItsProcessStoodStill(t *testing.T) {
	l := &life{Process: "p", Seat: 1}
	h := &history{calls: []*call{
		{life: l, began: at(0), ended: at(1000), limit: int64(time.Second)},
		{life: l, began: at(0), ended: at(9000)},
		{life: l, began: at(0), ended: at(9000), limit: int64(time.Second)},
	}}
	if wrong := h.late(); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
	l.stills = []stretch{{from: at(500), to: at(5500)}}
	if wrong := h.late(); len(wrong) != 1 {
		t.Errorf("it stood still for a part of the time: %q", wrong)
	}
	l.stills = []stretch{{from: at(500), to: at(8500)}}
	if wrong := h.late(); len(wrong) != 0 {
		t.Errorf("it stood still: %q", wrong)
	}
}

func TestACallThatNeverEndsIsALostTicketUnlessItsProcessWasKilled(t *testing.T) {
	alive, dead := &life{Process: "p"}, &life{Process: "q", Killed: 1}
	h := &history{
		calls: []*call{{life: alive, began: 1}, {life: dead, began: 1}, had("A", 1, 0, 10)},
		lives: map[string]*life{"p": alive, "q": dead}, ended: map[string]bool{"p": true},
	}
	if wrong := h.unended(); len(wrong) != 1 {
		t.Fatalf("%q", wrong)
	}
	h.ended["p"] = false
	if wrong := h.unended(); len(wrong) != 2 {
		t.Fatalf("%q", wrong)
	}
}
