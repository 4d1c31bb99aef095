package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/lua"
)

// is fails unless the line is due, and all of it, so long after t0.
func (ln *Line) is(t *testing.T, what string, due, whole time.Duration) {
	t.Helper()
	if d, w := ln.Due.Sub(t0), ln.Whole.Sub(t0); d != due || w != whole {
		t.Errorf("%s: due after %v, all after %v, want %v and %v", what, d, w, due, whole)
	}
}

func TestTheFirstOfALineAsksBeforeAClaimCouldHavePassedAndAllEveryFiveSeconds(t *testing.T) {
	for claim, first := range map[time.Duration]time.Duration{
		3 * time.Second:        2500 * time.Millisecond,
		600 * time.Millisecond: 500 * time.Millisecond,
		100 * time.Millisecond: 500 * time.Millisecond,
	} {
		ln := NewLine(t0, claim)
		ln.is(t, "a new line", first, 5*time.Second)
		if alone := ln.Beat(t0.Add(first), claim, 2); !alone {
			t.Error("all ask when the first does")
		}
		next := min(2*first, 5*time.Second)
		ln.is(t, "after the first has asked", next, 5*time.Second)
		if alone := ln.Beat(t0.Add(5*time.Second), claim, 2); alone {
			t.Error("the first asks alone when all are due")
		}
		ln.is(t, "after all have asked", 5*time.Second+first, 10*time.Second)
		if alone := ln.Beat(t0.Add(6*time.Second), claim, 1); alone {
			t.Error("one that is all there is does not speak for itself")
		}
		ln.is(t, "after the only one has asked", 6*time.Second+first, 11*time.Second)
	}
}

func TestALineAsksSoonerButNeverTwiceWithinFiveMilliseconds(t *testing.T) {
	ln := NewLine(t0, claim)
	ln.EnterAt(t0.Add(time.Hour))
	ln.is(t, "later", 2500*time.Millisecond, 5*time.Second)
	ln.AskAt(t0.Add(time.Second))
	ln.is(t, "the first alone", time.Second, 5*time.Second)
	ln.EnterAt(t0.Add(time.Millisecond))
	ln.is(t, "all at once", 5*time.Millisecond, time.Millisecond)
	ln.Beat(t0.Add(5*time.Millisecond), claim, 1)
	ln.AskAt(t0.Add(6 * time.Millisecond))
	ln.is(t, "after they have asked", 10*time.Millisecond, 5*time.Second+5*time.Millisecond)
}

func TestALineAsksWhenTheRecordEndsWhenItIsBlindAndWhenItIsToldTo(t *testing.T) {
	for _, c := range []struct {
		what       string
		e          lua.Entered
		waits      bool
		due, whole time.Duration
		blind      bool
	}{
		{"a record that ends soon", lua.Entered{Heard: true, Remaining: time.Second}, true, 1002 * time.Millisecond, 5 * time.Second, false},
		{"one that ends at once", lua.Entered{Heard: true, Remaining: 1}, true, 5 * time.Millisecond, 5 * time.Second, false},
		{"one that ends late", lua.Entered{Heard: true, Remaining: time.Minute}, true, 2500 * time.Millisecond, 5 * time.Second, false},
		{"a free lock", lua.Entered{Heard: true}, true, 2500 * time.Millisecond, 5 * time.Second, false},
		{"a line of dead tickets", lua.Entered{Heard: true, More: true, Remaining: time.Minute}, true, 5 * time.Millisecond, 0, false},
		{"a subscription that the server does not see", lua.Entered{Remaining: time.Minute}, true, time.Second, time.Second, true},
		{"and nobody in line", lua.Entered{Remaining: time.Minute}, false, 2500 * time.Millisecond, 5 * time.Second, false},
		{"blind, and a record that ends sooner", lua.Entered{Remaining: 500 * time.Millisecond}, true, 502 * time.Millisecond, time.Second, true},
	} {
		ln := NewLine(t0, claim)
		ln.Backoff = time.Second
		c.e.Holder, c.e.Waiting = "h", 3
		blind := ln.Answered(&c.e, t0, c.waits)
		ln.is(t, c.what, c.due, c.whole)
		if blind != c.blind {
			t.Errorf("%s: blind %v", c.what, blind)
		}
		if ln.Backoff != 0 || ln.Holder != "h" || ln.Length != 3 || !ln.Free.Equal(t0.Add(c.e.Remaining)) {
			t.Errorf("%s: it keeps %+v", c.what, ln)
		}
	}
}

func TestALineWhoseRequestsFailAsksAgainTenMillisecondsLaterAndThenEverySecond(t *testing.T) {
	ln := NewLine(t0, claim)
	now := t0.Add(time.Minute)
	for _, want := range []int64{10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
		ln.Whole, ln.Due = now.Add(time.Hour), now.Add(time.Hour)
		if ln.Failed(now); ln.Due.Sub(now).Milliseconds() != want || !ln.Whole.Equal(ln.Due) {
			t.Errorf("due after %v, want %d ms", ln.Due.Sub(now), want)
		}
	}
}
