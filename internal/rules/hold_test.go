package rules

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

// begun is a hold with one Lease on it. Its lease, of 30 s, is renewed.
func begun(span time.Duration) Hold {
	h := Begin(Term{span, t0.Add(span)}, lease, false, t0)
	h.LeaseGiven(t0)
	return h
}

// after is how long after t0 a time is; -1: the time is zero.
func TestAHoldOfAClaimThatIsExtendedToLessThanALeaseIsRenewedInTime(t *testing.T) {
	h := begun(claim)
	h.Renewed(t0, 6*time.Second, 1)
	if renewed, trusted := after(h.RenewAt), after(h.TrustEnds); renewed != 2*time.Second || trusted != 5400*time.Millisecond {
		t.Errorf("renewed after %v, trusted for %v", renewed, trusted)
	}
}

func after(at time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	return at.Sub(t0)
}

func TestAHoldIsRenewedAfterAThirdOfWhatItsRecordWasWrittenForAndAFixedOneConfirmed(t *testing.T) {
	for _, c := range []struct {
		what   string
		span   time.Duration
		asked  time.Duration
		fixed  bool
		renews time.Duration
	}{
		{"a lease", lease, lease, false, 10 * time.Second},
		{"a claim", claim, lease, false, time.Second},
		{"a long lease", time.Hour, time.Hour, false, 50 * time.Second},
		{"a fixed lease", lease, lease, true, -1},
		{"a claim of a fixed lease", claim, lease, true, 0},
		{"a lease that a clock made longer", time.Hour, lease, false, 10 * time.Second},
		{"a fixed one that a clock made longer", time.Hour, lease, true, -1},
	} {
		h := Begin(Term{c.span, t0.Add(c.span)}, c.asked, c.fixed, t0)
		if got := after(h.RenewAt); got != c.renews {
			t.Errorf("%s: renewed after %v, want %v", c.what, got, c.renews)
		}
		if got, want := after(h.TrustEnds), c.span-Margin(c.span); got != want {
			t.Errorf("%s: trusted for %v, want %v", c.what, got, want)
		}
		if long := h.ForRenewal(t0) > c.asked; long != (c.span > c.asked) {
			t.Errorf("%s: a renewal asks for %v", c.what, h.ForRenewal(t0))
		}
	}
}

func TestATakenGrantCountsFromWhenItWasSentAndNotFromNow(t *testing.T) {
	h := Begin(Term{claim, t0.Add(claim)}, lease, false, t0.Add(2*time.Second))
	if got := after(h.RenewAt); got != time.Second {
		t.Errorf("renewed after %v, want a third of the claim from its beginning", got)
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func TestAHoldIsDueAtTheFirstOfItsTimes(t *testing.T) {
	h := begun(lease)
	for _, c := range []struct {
		renew, sync, want int // seconds after t0; -1: none
	}{{10, 5, 5}, {5, 10, 5}, {-1, 5, 5}, {5, -1, 5}, {-1, -1, 27}, {28, 29, 27}} {
		h.RenewAt, h.SyncAt = time.Time{}, time.Time{}
		if c.renew >= 0 {
			h.RenewAt = t0.Add(seconds(c.renew))
		}
		if c.sync >= 0 {
			h.SyncAt = t0.Add(seconds(c.sync))
		}
		if got := after(h.Due()); got != seconds(c.want) {
			t.Errorf("%+v: due after %v", c, got)
		}
	}
}

func TestARenewalGoesOutWhenItIsDueOrNearlySoAndAgainBesideAnUnansweredOne(t *testing.T) {
	for _, c := range []struct {
		what   string
		span   time.Duration
		fixed  bool
		at     time.Duration // the renewal's
		now    time.Duration
		renews bool
		again  time.Duration
	}{
		{"of a lease, a fifteenth of it before", lease, false, 10 * time.Second, 8 * time.Second, true, 3 * time.Second},
		{"of a lease, sooner", lease, false, 10 * time.Second, 8*time.Second - 1, false, 0},
		{"of a claim, a fifteenth of it before", claim, false, time.Second, 800 * time.Millisecond, true, 300 * time.Millisecond},
		{"of a claim, sooner", claim, false, time.Second, 800*time.Millisecond - 1, false, 0},
		{"of a fixed one, when it is due", claim, true, time.Second, time.Second, true, 300 * time.Millisecond},
		{"of a fixed one, sooner", claim, true, time.Second, time.Second - 1, false, 0},
		{"of a very long lease, ten seconds before", time.Hour, false, 50 * time.Second, 40 * time.Second, true, 50 * time.Second},
		{"of a very long lease, sooner", time.Hour, false, 50 * time.Second, 40*time.Second - 1, false, 0},
		{"of one whose tenth is very short", 60 * time.Millisecond, false, 0, 0, true, 10 * time.Millisecond},
	} {
		h := Begin(Term{c.span, t0.Add(c.span)}, max(c.span, lease), c.fixed, t0)
		h.RenewAt = t0.Add(c.at)
		h.SyncAt = t0.Add(c.now + 1)
		if got := h.StartRenewal(t0.Add(c.now)); got != c.renews {
			t.Errorf("%s: %v", c.what, got)
		}
		if c.renews && (!h.RenewAt.Equal(t0.Add(c.now+c.again)) || !h.SyncAt.IsZero()) {
			t.Errorf("%s: again after %v, want %v", c.what, h.RenewAt.Sub(t0.Add(c.now)), c.again)
		}
		if h.SyncAt = (time.Time{}); c.renews && h.StartRenewal(t0.Add(c.now)) {
			t.Errorf("%s: again at once", c.what)
		}
	}
	h := Begin(Term{lease, t0.Add(lease)}, lease, true, t0)
	if h.StartRenewal(t0.Add(time.Second)) {
		t.Error("a fixed lease is renewed")
	}
	h.SyncAt = t0.Add(time.Second)
	if !h.StartRenewal(t0.Add(time.Second)) {
		t.Error("the record is not told of another depth")
	}
	h.TakenOver(claim) // though the record was written for more
	h.RenewAt = t0.Add(time.Second)
	soon := t0.Add(800 * time.Millisecond)
	if h.StartRenewal(soon.Add(-1)) || !h.StartRenewal(soon) || after(h.RenewAt) != 1100*time.Millisecond {
		t.Errorf("one taken over for a shorter lease: renewed after %v", after(h.RenewAt))
	}
}

func TestARenewalOnlyEverProlongs(t *testing.T) {
	h := begun(claim)
	if h.Renewed(t0.Add(time.Second), lease, 1) {
		t.Fatal("it is to be asserted again")
	}
	until := t0.Add(time.Second + lease)
	renewed := h
	h.Renewed(t0, lease, 1) // an older answer that comes later
	h.Renewed(t0.Add(time.Second), 500*time.Millisecond, 1)
	if h.Term != (Term{lease, until}) || !h.TrustEnds.Equal(until.Add(-Margin(lease))) {
		t.Errorf("until %v, trusted %v, want %v of %+v", after(h.Term.Ends), after(h.TrustEnds), after(until), renewed)
	}
	if got := after(renewed.RenewAt); got != 11*time.Second {
		t.Errorf("renewed again after %v", got)
	}
	fixed := Begin(Term{claim, t0.Add(claim)}, lease, true, t0)
	if fixed.Renewed(t0, lease, 1); !fixed.RenewAt.IsZero() {
		t.Error("a fixed lease is renewed after it was confirmed")
	}
}

func TestAHoldThatTheRecordDoesNotHaveIsAssertedAgainAndSoIsATokenKeyThatAges(t *testing.T) {
	for _, c := range []struct {
		what  string
		asked time.Duration
		left  time.Duration
		age   time.Duration
		want  bool
	}{
		{"held", lease, lease, 6*time.Minute - lease, false},
		{"held for so long that the server may forget its token sooner than is promised", lease, lease, 6*time.Minute - lease + 1, true},
		{"held with a long lease", time.Hour, time.Hour, time.Minute, true},
		{"extended", lease, time.Hour, time.Minute, true},
		{"not held", lease, 0, 0, true},
	} {
		h := Begin(Term{c.asked, t0.Add(c.asked)}, c.asked, false, t0)
		if got := h.Renewed(t0.Add(c.age), c.left, 1); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
		if want := max(c.age+c.left, c.asked); after(h.Term.Ends) != want {
			t.Errorf("%s: until %v, want %v", c.what, after(h.Term.Ends), want)
		}
	}
	h := begun(lease)
	if h.Reasserted(t0.Add(6*time.Minute), lease, 1); after(h.Term.Ends) != 6*time.Minute+lease {
		t.Errorf("asserted again until %v", after(h.Term.Ends))
	}
	if h.Renewed(t0.Add(7*time.Minute), lease, 1) {
		t.Error("its token key was kept alive a minute ago")
	}
	h.Lose(Forced, t0, false)
	if h.Renewed(t0, 0, 1) {
		t.Error("what is lost is asserted")
	}
	lost := h
	h.Reasserted(t0.Add(time.Hour), lease, 1)
	if h != lost {
		t.Error("what is lost is prolonged")
	}
}

func TestTheRecordIsToldADepthThatLasts(t *testing.T) {
	early := Begin(Term{claim, t0.Add(claim)}, lease, false, t0)
	if early.Renewed(t0, lease, 1); !early.SyncAt.IsZero() || early.RenewAt.IsZero() {
		t.Error("that there is no Lease yet is told, or keeps it from being renewed")
	}
	h := begun(lease)
	if !h.SyncAt.IsZero() {
		t.Error("the first Lease is told")
	}
	h.LeaseGiven(t0.Add(time.Second))
	h.LeaseGiven(t0.Add(2 * time.Second))
	if got := after(h.SyncAt); got != 1500*time.Millisecond {
		t.Errorf("told after %v", got)
	}
	for range 2 {
		if h.LeaseEnded(false, t0) {
			t.Error("there is one left")
		}
	}
	if !h.SyncAt.IsZero() {
		t.Error("a depth that the record shows is told")
	}
	h.LeaseGiven(t0)
	if h.Renewed(t0.Add(time.Second), lease, 1); after(h.SyncAt) != 1500*time.Millisecond {
		t.Error("a depth that a renewal did not know of is not told after it")
	}
	h.Renewed(t0.Add(time.Second), lease, 2)
	if h.Told != 2 || !h.SyncAt.IsZero() {
		t.Errorf("after a renewal that told it: %+v", h)
	}
	if h.LeaseEnded(false, t0); h.SyncAt.IsZero() {
		t.Error("that it is less again is not told")
	}
	if !h.LeaseEnded(false, t0) {
		t.Error("that was the last")
	}
}

func TestAHoldWhoseLeasesWereAllDroppedIsRenewedNoMore(t *testing.T) {
	h := begun(lease)
	h.LeaseGiven(t0)
	if h.LeaseDropped(); h.RenewAt.IsZero() || h.Lease == 0 {
		t.Error("one of two was dropped")
	}
	one := h
	if h.LeaseDropped(); !h.RenewAt.IsZero() || !h.SyncAt.IsZero() || h.Lease != 0 {
		t.Errorf("both were dropped: %+v", h)
	}
	if h.Renewed(t0.Add(time.Second), lease, 2); !h.RenewAt.IsZero() {
		t.Error("a late answer has it renewed")
	}
	if one.Renewed(t0.Add(time.Second), lease, 2); one.RenewAt.IsZero() {
		t.Error("one of two was dropped, and an answer has it renewed no more")
	}
	if one.LeaseEnded(false, t0) {
		t.Error("the dropped one is left")
	}
	if one.Renewed(t0.Add(time.Second), lease, 1); !one.RenewAt.IsZero() {
		t.Error("only the dropped one is left, and it is renewed")
	}
	two := begun(lease)
	two.LeaseGiven(t0)
	two.LeaseDropped()
	if two.LeaseEnded(true, t0); two.Dropped != 0 || two.Depth != 1 {
		t.Errorf("the dropped one was unlocked after all: %+v", two)
	}
	fixed := Begin(Term{lease, t0.Add(lease)}, lease, true, t0)
	fixed.LeaseGiven(t0)
	fixed.LeaseGiven(t0)
	if fixed.SyncAt.IsZero() {
		t.Error("a fixed hold does not tell its depth")
	}
	fixed.LeaseDropped()
	if fixed.LeaseGiven(t0); !fixed.SyncAt.IsZero() {
		t.Error("a fixed hold with a dropped Lease tells its depth")
	}
}

func TestAHoldThatHasLessThanANestedCallAsksForIsProlonged(t *testing.T) {
	h := begun(lease)
	if h.AskFor(lease, false, t0) || h.AskFor(time.Hour, false, t0) || h.Lease != time.Hour {
		t.Error("a longer lease is not asked for with the next renewal")
	}
	if h.AskFor(time.Second, false, t0); h.Lease != time.Hour {
		t.Error("a shorter lease is asked for")
	}
	for asks, short := range map[time.Duration]bool{lease: false, lease + time.Millisecond: true} {
		if h := begun(lease); h.AskFor(asks, true, t0) != short {
			t.Errorf("a fixed lease of %v", asks)
		}
	}
	fixed := Begin(Term{lease, t0.Add(lease)}, lease, true, t0)
	if !fixed.AskFor(time.Second, false, t0) {
		t.Error("a fixed one has no watchdog")
	}
	fixed.TakenOver(time.Minute)
	if fixed.Lease != time.Minute || after(fixed.RenewAt) != 20*time.Second {
		t.Errorf("taken over: %v, renewed after %v", fixed.Lease, after(fixed.RenewAt))
	}
	if fixed.TakenOver(time.Second); fixed.Lease != time.Minute {
		t.Error("taken over by a shorter one")
	}
	fixed.Lose(Expired, t0, false)
	lost := fixed
	if fixed.TakenOver(time.Hour); fixed != lost {
		t.Error("what is lost is taken over")
	}
}

func TestAHolderThatIsDoubtedRenewsAtOnce(t *testing.T) {
	for _, c := range []struct {
		what   string
		holder string
		at     lua.Micros
		state  State
		lease  time.Duration
		fixed  bool
		renews bool
	}{
		{"another has it", "b", s0 + 1000, Held, lease, false, true},
		{"the server has forgotten", "", s0, Held, lease, false, true},
		{"it has it", "a", s0 + 1000, Held, lease, false, false},
		{"another had it before", "b", s0 + 999, Held, lease, false, false},
		{"it was released", "b", s0 + 1000, Releasing, lease, false, false},
		{"it was dropped", "b", s0 + 1000, Held, 0, false, false},
		{"it is fixed", "b", s0 + 1000, Held, 0, true, true},
	} {
		h := Begin(Term{lease, t0.Add(lease)}, lease, c.fixed, t0)
		h.State, h.Lease = c.state, c.lease
		before := h
		if got := h.Doubted(c.holder, "a", c.at, s0, t0); got != c.renews {
			t.Errorf("%s: %v", c.what, got)
		}
		if c.renews && after(h.RenewAt) != time.Millisecond || !c.renews && h != before {
			t.Errorf("%s: renewed after %v", c.what, after(h.RenewAt))
		}
	}
}

func TestAnAnswerToARenewalThatWasSentBeforeADoubtDoesNotSettleIt(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		h := Begin(Term{lease, t0.Add(lease)}, lease, fixed, t0)
		doubt := t0.Add(5 * time.Millisecond)
		h.Doubted("b", "a", s0+1000, s0, doubt)
		h.Renewed(t0, lease, 1)
		if after(h.RenewAt) != 6*time.Millisecond {
			t.Errorf("fixed: %v: renewed after %v", fixed, after(h.RenewAt))
		}
		if now := doubt.Add(time.Millisecond); h.StartRenewal(now) && h.Passes(lease, time.Minute, now) {
			t.Errorf("fixed: %v: the lock passes on while it is in doubt", fixed)
		}
		h.Doubted("b", "a", s0+1000, s0, doubt.Add(3*time.Millisecond)) // its answer may be older, too
		h.Renewed(doubt.Add(2*time.Millisecond), lease, 1)
		if after(h.RenewAt) != 9*time.Millisecond {
			t.Errorf("fixed: %v: renewed again after %v", fixed, after(h.RenewAt))
		}
		h.Renewed(doubt.Add(4*time.Millisecond), lease, 1)
		if !h.RenewAt.IsZero() && after(h.RenewAt) < lease/3 {
			t.Errorf("fixed: %v: renewed a third time after %v", fixed, after(h.RenewAt))
		}
	}
}

func TestAHoldThatIsTakenOverIsDoubtedYet(t *testing.T) {
	h := Begin(Term{lease, t0.Add(lease)}, lease, true, t0)
	h.Doubted("b", "a", s0+1000, s0, t0.Add(time.Millisecond))
	h.Renewed(t0, lease, 1) // an Extend, sent before the doubt
	h.TakenOver(lease)
	if after(h.RenewAt) != 2*time.Millisecond {
		t.Errorf("renewed after %v", after(h.RenewAt))
	}
}

func TestTrustEndsByItselfAndWithTheServersWord(t *testing.T) {
	h := begun(lease)
	end := t0.Add(27 * time.Second)
	if !h.Live(end.Add(-1)) || h.TrustOver(end.Add(-1)) {
		t.Error("it is trusted until then")
	}
	if h.Live(end) || !h.TrustOver(end) {
		t.Error("it is not trusted from then on")
	}
	for _, c := range []struct {
		why   Why
		open  bool
		leave bool
	}{{Expired, false, false}, {Expired, true, true}, {Forced, false, true}, {Vanished, false, true}, {Vanished, true, true}} {
		h := begun(lease)
		if leave := h.Lose(c.why, t0.Add(time.Second), c.open); leave != c.leave {
			t.Errorf("%+v: leaves %v", c, leave)
		}
		if h.State != Lost || after(h.TrustEnds) != time.Second || h.Live(t0) || h.TrustOver(end) {
			t.Errorf("%+v: %+v", c, h)
		}
	}
	late := begun(lease)
	if late.Lose(Expired, end.Add(time.Hour), false); !late.TrustEnds.Equal(end) {
		t.Error("that it was noticed late prolongs the trust")
	}
	if h.Release(); h.Live(t0) || h.TrustOver(end) || h.Leasable(false) {
		t.Error("it is trusted while it is released")
	}
	fresh := begun(lease)
	if !fresh.Leasable(false) || fresh.Leasable(true) {
		t.Error("a closed Locker gives Leases, or an open one none")
	}
}

func TestWhatBecomesOfARelease(t *testing.T) {
	refusal := proto("WRONGTYPE no")
	for _, c := range []struct {
		what    string
		unsure  bool
		was     lua.Was
		err     error
		trusted bool
		now     time.Duration
		stop    bool
		want    Outcome
		why     Why
		left    bool // it is unsure afterwards
	}{
		{"it was held", false, lua.Held, nil, true, 0, false, Clean, 0, false},
		{"it was held, late", true, lua.Held, nil, false, time.Hour, false, Clean, 0, true},
		{"it was not held", false, lua.Neither, nil, true, 0, false, Missing, Vanished, false},
		{"it waited", false, lua.Waited, nil, true, 0, false, Missing, Vanished, false},
		{"it waits again, by a late request", true, lua.Waited, nil, true, lease - 1, false, Missing, Vanished, true},
		{"its nodes know that it was lost", true, "", nil, true, lease - 1, false, Missing, Vanished, true},
		{"it was forced", false, lua.Forced, nil, true, 0, false, Missing, Forced, false},
		{"it was forced before an earlier release", true, lua.Forced, nil, true, lease - 1, false, Missing, Forced, true},
		{"an earlier release was executed", true, lua.Neither, nil, true, lease - Margin(lease) - 1, false, Clean, 0, true},
		{"an earlier release was executed, or the lease ended", true, lua.Neither, nil, true, lease - Margin(lease), false, Missing, Uncertain, true},
		{"unanswered", false, "", io.EOF, true, lease - 1, false, Retry, 0, true},
		{"unanswered, sent when it was not trusted", false, "", io.EOF, false, 0, false, Retry, 0, false},
		{"unanswered once more", true, "", io.EOF, false, 0, false, Retry, 0, true},
		{"not yet", false, "", proto("LOADING"), true, 0, false, Retry, 0, false},
		{"unanswered when the lease has ended", false, "", io.EOF, true, lease, false, TakeBack, Failed, false},
		{"unanswered, and closed", false, "", io.EOF, true, 0, true, Refusal, Failed, false},
		{"unanswered, closed and over", false, "", io.EOF, true, lease, true, Refusal, Failed, false},
		{"refused for good", false, "", refusal, true, 0, false, Refusal, Failed, false},
		{"refused for good when the lease has ended", false, "", refusal, true, lease, false, Refusal, Failed, false},
	} {
		h := begun(lease)
		h.Release()
		h.Unsure = c.unsure
		got, why := h.Released(c.was, c.err, c.trusted, t0.Add(c.now), c.stop)
		if got != c.want || why != c.why || h.Unsure != c.left {
			t.Errorf("%s: %d because of %d, unsure %v", c.what, got, why, h.Unsure)
		}
		if over := h.State == Over; over != (c.want != Retry) {
			t.Errorf("%s: state %d", c.what, h.State)
		}
	}
	if errors.Is(refusal, io.EOF) {
		t.Error("a refusal is no silence")
	}
}

func TestARenewalAsksForWhatIsLeftOfALongerLeaseThatWasAskedFor(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		h := Begin(Term{lease, t0.Add(lease)}, lease, fixed, t0)
		usual := h.Lease
		h.Asks(lease, t0)
		if got := h.ForRenewal(t0); got != usual || h.Longest != lease {
			t.Errorf("at first it asks for %v, want %v", got, usual)
		}
		h.Asks(time.Hour, t0) // not answered yet
		if got := h.ForRenewal(t0.Add(lease / 2)); got != max(usual, lease/2-Margin(lease)/10) {
			t.Errorf("unanswered: it asks for %v", got)
		}
		h.Renewed(t0, time.Hour, 1)
		if got, want := h.ForRenewal(t0.Add(time.Minute)), time.Hour-time.Minute-Margin(time.Hour)/10; got != want || h.Longest != time.Hour {
			t.Errorf("it asks for %v, want %v", got, want)
		}
		if got := h.ForRenewal(t0.Add(time.Hour)); got != usual {
			t.Errorf("at its end it asks for %v, want %v", got, usual)
		}
	}
	late := Begin(Term{claim, t0.Add(claim)}, lease, true, t0) // a claim on that lease
	late.Renewed(t0, lease, 1)
	late.Asks(lease/2, t0.Add(lease*3/4)) // no longer, and yet it ends later
	late.Renewed(t0.Add(lease*3/4), lease/2, 1)
	if got, want := late.ForRenewal(t0.Add(lease)), lease/4-Margin(lease/2)/10; got != want {
		t.Errorf("it asks for %v, want %v", got, want)
	}
}

// Else a server that then lost its data would give the lock away sooner than trust in it ends.
func TestARenewalAsksForWhatIsLeftIfTheServersClockWasSetBack(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		h := Begin(Term{lease, t0.Add(lease)}, lease, fixed, t0)
		usual := h.Lease
		h.Renewed(t0, lease, 1)
		if got := h.ForRenewal(t0); got != usual {
			t.Errorf("at first it asks for %v, want %v", got, usual)
		}
		h.Renewed(t0, lease+time.Minute, 1)
		if got, want := h.ForRenewal(t0.Add(lease)), time.Minute-Margin(lease+time.Minute)/10; got != want {
			t.Errorf("it asks for %v, want %v", got, want)
		}
	}
}

func TestFurtherDoubtsDoNotPutARenewalOff(t *testing.T) {
	h := Begin(Term{lease, t0.Add(lease)}, lease, true, t0)
	for _, at := range []time.Duration{0, time.Millisecond / 2, time.Millisecond} {
		h.Doubted("b", "a", s0+1000, s0, t0.Add(at))
	}
	if !h.StartRenewal(t0.Add(time.Millisecond)) {
		t.Errorf("renewed after %v", after(h.RenewAt))
	}
}
