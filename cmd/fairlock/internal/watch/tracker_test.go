package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story is a tracker with what it told. Its clock begins at zero and moves only when the test says
// so.
type story struct {
	*testing.T
	tracker *Tracker
	now     time.Time
	lease   time.Duration
}

func newStory(t *testing.T) *story {
	return &story{t, NewTracker("x"), time.Unix(1_000_000, 0), 30 * time.Second}
}

// at returns the time d after the beginning.
func at(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }

// who returns a waiter that came at a time.
func (s *story) who(name string, came time.Duration) fairlock.Waiter {
	return fairlock.Waiter{ID: name, Owner: name, Note: "note of " + name, Since: at(came), Waited: s.now.Sub(at(came))}
}

// has returns the state of a lock that is held.
func (s *story) has(name string, token int64, since, remaining time.Duration, line ...fairlock.Waiter) *fairlock.State {
	h := &fairlock.Holder{Owner: name, Note: "note of " + name, Token: token, Since: at(since), Held: s.now.Sub(at(since)), Remaining: remaining}
	if name == "" {
		h.Note = ""
	}
	return &fairlock.State{Name: "x", Token: token, Holder: h, Waiting: len(line), Waiters: line}
}

func (s *story) free(token int64, line ...fairlock.Waiter) *fairlock.State {
	return &fairlock.State{Name: "x", Token: token, Waiting: len(line), Waiters: line}
}

// sees lets the tracker look now; want has the expected events in short form.
func (s *story) sees(state *fairlock.State, want ...string) {
	s.Helper()
	s.check(s.tracker.Look(state, s.now, s.now), want)
}

// hears lets the tracker overhear now.
func (s *story) hears(o fairlock.Overheard, want ...string) {
	s.Helper()
	o.Name = "x"
	s.check(s.tracker.Hear(o, s.now), want)
}

func (s *story) check(events []Event, want []string) {
	s.Helper()
	var got []string
	for _, e := range events {
		if e.Lock != "x" || !e.At.Equal(s.now) {
			s.Errorf("%+v", e)
		}
		text := string(e.Kind)
		if e.Owner != "" {
			text += " " + e.Owner
		}
		if e.Token > 0 {
			text += fmt.Sprintf(" token %d", e.Token)
		}
		if e.Position > 0 {
			text += fmt.Sprintf(" at %d", e.Position)
		}
		if e.Waited > 0 {
			text += fmt.Sprintf(" waited %v", e.Waited)
		}
		if e.Held > 0 {
			text += fmt.Sprintf(" held %v", e.Held)
		}
		got = append(got, fmt.Sprintf("%s, %d wait", text, e.Waiting))
	}
	if !slices.Equal(got, want) {
		s.Errorf("said\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (s *story) passes(d time.Duration) { s.now = s.now.Add(d) }

func given(name string, token int64) fairlock.Overheard {
	return fairlock.Overheard{Kind: fairlock.Acquired, ID: name, Owner: name, Note: "note of " + name, Token: token, Remaining: 3 * time.Second}
}

func TestAHandOverThatIsHeardEndsOneHoldAndBeginsTheNext(t *testing.T) {
	s := newStory(t)
	s.passes(2 * time.Second)
	s.sees(s.has("a", 10, 0, s.lease, s.who("b", time.Second)), "standing a token 10 held 2s, 1 wait")
	s.passes(time.Second)
	s.hears(given("b", 20), "released a token 10 held 3s, 1 wait", "granted b token 20 waited 2s, 0 wait")
	s.sees(s.has("b", 20, 3*time.Second, s.lease))
	s.hears(given("b", 20))
	s.passes(time.Second)
	s.hears(given("c", 30), "released b token 20 held 1s, 0 wait", "granted c token 30, 0 wait")
}

func TestALookOlderThanWhatWasHeardBringsNobodyBack(t *testing.T) {
	s := newStory(t)
	s.passes(time.Second)
	before := s.has("a", 10, 0, s.lease, s.who("b", 0), s.who("c", 0), s.who("d", 0))
	s.sees(before, "standing a token 10 held 1s, 3 wait")
	s.hears(given("b", 20), "released a token 10 held 1s, 3 wait", "granted b token 20 waited 1s, 2 wait")
	s.hears(fairlock.Overheard{Kind: fairlock.GaveUp, ID: "c", Owner: "c"}, "evicted c waited 1s, 1 wait")
	s.check(s.tracker.Look(before, s.now.Add(-time.Millisecond), s.now), nil) // this look was under way
	s.passes(time.Second)
	s.sees(s.has("b", 20, time.Second, s.lease, s.who("d", 0)))
}

func TestWhatNobodyTellsIsSeen(t *testing.T) {
	s := newStory(t)
	s.sees(s.free(0), "standing, 0 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, time.Second, s.lease, s.who("b", time.Second), s.who("c", time.Second)),
		"granted a token 10, 2 wait", "came b at 1, 2 wait", "came c at 2, 2 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, time.Second, s.lease, s.who("c", time.Second)), "left b waited 1s, 1 wait")
	s.passes(time.Second)
	s.sees(s.has("c", 20, 3*time.Second, s.lease), "released a token 10 held 2s, 0 wait", "granted c token 20 waited 2s, 0 wait")
	s.passes(time.Second)
	s.sees(s.free(20), "released c token 20 held 1s, 0 wait")
	s.passes(time.Second)
	s.sees(s.free(30), "unseen token 30, 0 wait")
	s.sees(s.free(0)) // the token is kept for a while
}

func TestWhoIsGoneFromTheLineMayHaveHadTheLockOnlyIfItHadComeBeforeItsHolder(t *testing.T) {
	s := newStory(t)
	line := func(names ...string) (all []fairlock.Waiter) {
		for _, n := range names {
			all = append(all, s.who(n, time.Duration(n[0])*time.Millisecond))
		}
		return all
	}
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, s.lease, line("b", "c", "d", "e")...), "standing a token 10 held 1s, 4 wait")
	s.passes(time.Second)
	s.sees(s.has("c", 20, 2*time.Second, s.lease, line("e")...),
		"released a token 10 held 2s, 1 wait", "granted c token 20 waited 1.901s, 1 wait", "gone b waited 1.902s, 1 wait", "left d waited 1.9s, 1 wait")
	s.passes(time.Second)
	s.sees(s.has("z", 30, 3*time.Second, s.lease), "released c token 20 held 1s, 0 wait", "granted z token 30, 0 wait", "gone e waited 2.899s, 0 wait")
}

func TestALeaseThatRunsOutIsToldBeforeAndAfter(t *testing.T) {
	s := newStory(t)
	s.sees(s.has("a", 10, 0, 3*time.Second), "standing a token 10, 0 wait") // a claim
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, 30*time.Second))
	s.passes(20500 * time.Millisecond)
	s.sees(s.has("a", 10, 0, 9500*time.Millisecond), "expiring a token 10 held 21.5s, 0 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, 8500*time.Millisecond))
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, 30*time.Second), "renewed a token 10 held 23.5s, 0 wait")
	s.passes(29 * time.Second)
	s.sees(s.has("a", 10, 0, time.Second), "expiring a token 10 held 52.5s, 0 wait")
	s.passes(2 * time.Second)
	s.sees(s.free(10), "expired a token 10 held 54.5s, 0 wait")
}

func TestHowAHoldEndedIsLeftOpenWhenALookCameTooLateToTell(t *testing.T) {
	s := newStory(t)
	s.sees(s.has("a", 10, 0, 300*time.Millisecond), "standing a token 10, 0 wait")
	s.passes(time.Second)
	s.sees(s.free(10), "ended a token 10 held 1s, 0 wait")
}

func TestForceIsTold(t *testing.T) {
	s := newStory(t)
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, s.lease, s.who("b", 0)), "standing a token 10 held 1s, 1 wait")
	forced := fairlock.Overheard{Kind: fairlock.Lost, ID: "a", Owner: "a", Token: 10}
	s.hears(forced, "forced a token 10 held 1s, 1 wait")
	s.hears(forced)
	s.hears(given("b", 20), "granted b token 20 waited 1s, 0 wait")
	s.sees(s.has("b", 20, time.Second, s.lease))

	s = newStory(t)
	s.sees(s.has("a", 10, 0, s.lease), "standing a token 10, 0 wait")
	s.passes(time.Second)
	s.hears(forced, "forced a token 10 held 1s, 0 wait")
	s.sees(s.free(11)) // force leaves the lock like this
}

func TestOfAPlainLockEveryReleaseIsTold(t *testing.T) {
	s := newStory(t)
	s.sees(s.has("a", 10, 0, s.lease), "standing a token 10, 0 wait")
	s.passes(time.Second)
	freed := fairlock.Overheard{Kind: fairlock.Released}
	s.hears(freed, "released a token 10 held 1s, 0 wait")
	s.check(s.tracker.Look(s.has("a", 10, 0, s.lease), s.now.Add(-time.Millisecond), s.now), nil) // this look was under way
	s.hears(freed, "unseen, 0 wait")
	s.sees(s.has("b", 30, time.Second, s.lease), "granted b token 30, 0 wait")
	s.hears(fairlock.Overheard{Kind: fairlock.Lost, Owner: "b", Token: 30}, "forced b token 30, 0 wait")
	s.hears(freed) // this message comes with the force
}

func TestAHoldOfWhichOnlyTheReleaseIsHeardIsToldOnce(t *testing.T) {
	s := newStory(t)
	s.sees(s.free(10), "standing, 0 wait")
	s.passes(time.Second)
	s.hears(fairlock.Overheard{Kind: fairlock.Released}, "unseen, 0 wait")
	s.check(s.tracker.Look(s.free(10), s.now.Add(-time.Millisecond), s.now), nil) // this look was under way
	s.passes(time.Second)
	s.sees(s.free(20))
	s.passes(time.Second)
	s.sees(s.free(30), "unseen token 30, 0 wait") // the message of this one was lost
}

func TestALockThatTheServerKeepsForItsHolderIsSaidToBe(t *testing.T) {
	s := newStory(t)
	s.sees(s.has("a", 10, 0, s.lease), "standing a token 10, 0 wait")
	s.passes(time.Second)
	s.sees(s.free(0), "forgotten a token 10 held 1s, 0 wait") // a real token would outlive its hold
	s.passes(time.Second)
	s.sees(s.has("", 10, 2*time.Second, s.lease, s.who("b", 0)), "forgotten token 10, 1 wait", "came b at 1 waited 2s, 1 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, s.lease, s.who("b", 0)), "renewed a token 10 held 3s, 1 wait")
	s.passes(time.Second)
	s.sees(s.has("", 10, 2*time.Second, s.lease, s.who("b", 0)), "forgotten a token 10 held 2s, 1 wait")
}

func TestAWaiterWhoWasPassedOverAndReturnsCameAgain(t *testing.T) {
	s := newStory(t)
	s.sees(s.has("a", 10, 0, s.lease, s.who("b", 0), s.who("c", 0)), "standing a token 10, 2 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, s.lease, s.who("c", 0)), "left b waited 1s, 1 wait")
	s.passes(time.Second)
	s.sees(s.has("a", 10, 0, s.lease, s.who("b", 0), s.who("c", 0)), "came b at 1 waited 2s, 2 wait")
}
