package rules

import (
	"testing"
	"time"
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
	for _, d := range []time.Duration{minLease, time.Second, 17 * time.Second, 9 * time.Minute, 10 * time.Minute, 20 * time.Hour, 300 * 24 * time.Hour} {
		lease := LeaseToTrust(d)
		if trust := lease - Margin(lease); trust < d || trust > d+3*time.Millisecond {
			t.Errorf("asking for %v is trusted for %v, want %v", lease, trust, d)
		}
	}
}

func TestATimeHasPassedWhenEitherClockSaysSo(t *testing.T) {
	now := time.Now()
	if Passed(now.Add(time.Second), now) || !Passed(now, now) || !Passed(now.Add(-1), now) {
		t.Error("by both clocks")
	}
	// A suspended machine: the wall clock went on, the monotonic one stood still.
	woken := now.Add(time.Hour).Round(0)
	if !Passed(now.Add(time.Minute), woken) {
		t.Error("by the wall clock alone")
	}
}
