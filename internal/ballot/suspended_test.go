package ballot

import (
	"testing"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/test/clocks"
)

// A machine was suspended after one vote was renewed for long, and before another one was.
func TestAMajorityLastsUntilTheFirstOfItsVotesEndsByEitherClock(t *testing.T) {
	now := time.Now()
	woke := clocks.Suspended(now, time.Hour)
	old := now.Add(time.Hour + time.Minute) // a minute by the wall clock, an hour by the other one
	young := woke.Add(10 * time.Minute)     // by both
	until := nthLatest([]time.Time{old, young}, 2, woke)
	if left := rules.Until(until, woke); left > time.Minute {
		t.Errorf("two votes, of which one ends within a minute, are trusted for %v", left)
	}
	if first := nthLatest([]time.Time{old, young}, 1, woke); rules.Until(first, woke) != 10*time.Minute {
		t.Errorf("one vote is trusted for %v", rules.Until(first, woke))
	}
}

func TestARenewalAfterASuspensionProlongsAVote(t *testing.T) {
	now := time.Now()
	b := New(1, time.Minute, 0, now)
	b.Renewed(0, time.Hour, 1, now)
	woke := clocks.Suspended(now, time.Hour-time.Minute)
	b.Renewed(0, 10*time.Minute, 1, woke)
	if until, ok := b.Standing(woke.Add(5 * time.Minute)); !ok {
		t.Errorf("it has ended at %v", until)
	}
}
