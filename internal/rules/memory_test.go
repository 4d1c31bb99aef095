package rules

import (
	"testing"
	"time"
)

func TestMemoryForgetsAfterAMinuteOrTwoAndNotBefore(t *testing.T) {
	var m Memory
	now := time.Now()
	recalls := func(record string, want Known, when string) {
		t.Helper()
		if got := m.Recall(record, now); got != want {
			t.Fatalf("recalls %+v of %s %s, want %+v", got, record, when, want)
		}
	}
	recalls("a", Known{}, "at first")
	for _, k := range []Known{
		{4, time.Hour}, {5, time.Second}, {5, time.Minute}, {5, time.Second}, {3, time.Hour},
	} {
		m.Note("a", k, now)
	}
	largest := Known{5, time.Minute}
	recalls("a", largest, "of several: the largest token and the longest lease with it")
	now = now.Add(remember + time.Second)
	m.Note("b", Known{1, 1}, now)
	recalls("a", largest, "after a turn")
	now = now.Add(remember)
	recalls("a", largest, "for another minute")
	now = now.Add(time.Second)
	m.Note("b", Known{2, 1}, now)
	recalls("a", Known{}, "after two turns")
	recalls("b", Known{2, 1}, "that was noted again")
	now = now.Add(2 * remember)
	recalls("b", Known{2, 1}, "two minutes later")
	now = now.Add(1)
	recalls("b", Known{}, "after that")
	m.Note("c", Known{1, 1}, now)
	now = now.Add(remember)
	m.Note("d", Known{1, 1}, now)
	recalls("b", Known{}, "that was too old to be turned over")
}

func TestNotingOtherLocksMakesNoneForgottenTooSoon(t *testing.T) {
	for what, noted := range map[string][]time.Duration{
		"many at once":          {0, 0, 0},
		"one in every minute":   {remember, 2 * remember},
		"one after two minutes": {2 * remember},
	} {
		var m Memory
		start, want := time.Now(), Known{1, time.Second}
		m.Note("a", want, start)
		var now time.Time
		for _, after := range noted {
			now = start.Add(after)
			m.Note("b", want, now)
		}
		if got := m.Recall("a", now); got != want {
			t.Errorf("%s: recalls %+v, want %+v", what, got, want)
		}
	}
}
