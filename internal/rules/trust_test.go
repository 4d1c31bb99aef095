package rules

import (
	"testing"
	"time"

	"github.com/fairlock/locks/test/clocks"
)

// The shortest and the longest lease that a call may ask for.
const (
	minLease = 100 * time.Millisecond
	maxLease = 366 * 24 * time.Hour
)

func TestTrustEndsATenthEarlyAndOfWhatExceedsTenMinutesAHundredth(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 10 * time.Millisecond,
		3 * time.Second:       300 * time.Millisecond,
		30 * time.Second:      3 * time.Second,
		10 * time.Minute:      time.Minute,
		20 * time.Minute:      time.Minute + 6*time.Second,
		maxLease:              time.Minute + (maxLease-10*time.Minute)/100,
	} {
		if got := Margin(lease); got != want {
			t.Errorf("Margin(%v) = %v, want %v", lease, got, want)
		}
	}
	for _, d := range []time.Duration{
		minLease / 2, minLease, time.Second, 17 * time.Second, 9 * time.Minute,
		9*time.Minute + 990_098, // of which division drops the most
		10 * time.Minute, 20 * time.Hour, 300 * 24 * time.Hour,
	} {
		lease := LeaseToTrust(d).Truncate(time.Millisecond) // as the server is told of it
		if trust := lease - Margin(lease); trust < d || trust > d+time.Millisecond {
			t.Errorf("asking for %v is trusted for %v, want %v", lease, trust, d)
		}
	}
}

func TestATimeHasPassedWhenEitherClockSaysSo(t *testing.T) {
	now := time.Now()
	if Passed(now.Add(time.Second), now) || !Passed(now, now) || !Passed(now.Add(-1), now) {
		t.Error("by both clocks")
	}
	for what, c := range map[string]struct {
		wall, monotonic time.Duration // how far each clock goes on
		passed          bool
	}{
		"neither":                     {59 * time.Second, 59 * time.Second, false},
		"the machine was suspended":   {time.Hour, time.Second, true},
		"the wall clock was set back": {-time.Hour, time.Minute, true},
	} {
		if got := Passed(now.Add(time.Minute), clocks.GoneOn(now, c.wall, c.monotonic)); got != c.passed {
			t.Errorf("%s: %v", what, got)
		}
	}
}
